"""The errors for statements that a pooled host does not support."""

from dataclasses import dataclass

from bough.gateway.wire.messages import ErrorResponse
from bough.gateway.wire.protocol_error import FEATURE_NOT_SUPPORTED

_DIRECT_HOST = "the direct host: the same name without -pooler"


@dataclass(frozen=True, slots=True)
class StatementRejection:
    """An error that replaces a client's statement.

    Postgres gets a text that it cannot parse instead, so that the error happens in the right order with all of its
    consequences. The client gets this error.
    """

    message: str
    hint: str
    sqlstate: str = FEATURE_NOT_SUPPORTED
    routine: str = ""  # of Postgres, by which drivers recognize an error

    def failing_sql(self) -> bytes:
        """Return the text for Postgres, which appears in its log."""
        return b"pooled host refuses: " + self.message.encode()

    def encode_error(self) -> bytes:
        error = ErrorResponse(
            sqlstate=self.sqlstate, message=self.message, hint=self.hint, routine=self.routine, severity="ERROR"
        )
        return error.encode()


SYNTAX_ERROR = "42601"
SYNTAX_ERROR_TOKEN = b'"pooled"'  # the first word of `failing_sql`


LISTEN = StatementRejection(
    message="LISTEN does not work on a pooled host, because clients do not keep a session",
    hint=f"Listen on {_DIRECT_HOST}. NOTIFY works on both.",
)
TEMPORARY_OBJECT = StatementRejection(
    message="a temporary object created outside a transaction block would be dropped at once on a pooled host",
    hint=f"Begin a transaction first: the object lasts until its end. Or use {_DIRECT_HOST}.",
)
SQL_PREPARE = StatementRejection(
    message="a statement prepared with PREPARE outside a transaction block would be dropped at once on a pooled host",
    hint=f"Use the driver's prepared statements, which work here; or begin a transaction; or use {_DIRECT_HOST}.",
)
CURSOR_WITH_HOLD = StatementRejection(
    message="a cursor WITH HOLD declared outside a transaction block would be closed at once on a pooled host",
    hint=f"Begin a transaction first and read the cursor in it. Or use {_DIRECT_HOST}.",
)
SESSION_LOCKS = {
    function: StatementRejection(
        message=f"{function} takes a session-level lock, which a pooled host does not keep after a transaction",
        hint=f"Use {function.replace('advisory', 'advisory_xact')} in a transaction. Or use {_DIRECT_HOST}.",
    )
    for function in (
        "pg_advisory_lock",
        "pg_advisory_lock_shared",
        "pg_try_advisory_lock",
        "pg_try_advisory_lock_shared",
    )
}
