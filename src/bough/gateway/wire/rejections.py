"""What a pooled host does not do, and the sentence that says so."""

from dataclasses import dataclass

from bough.gateway.wire.messages import ErrorResponse
from bough.gateway.wire.protocol_error import FEATURE_NOT_SUPPORTED

_DIRECT = "the direct host: the same one without -pooler"


@dataclass(frozen=True, slots=True)
class StatementRejection:
    """An error in place of what a client asked for.

    Postgres gets a text that it cannot parse, so that it fails where it would have run, with all that follows
    from an error; the client gets our words for it.
    """

    message: str
    hint: str
    sqlstate: str = FEATURE_NOT_SUPPORTED  # SQLSTATE
    routine: str = ""  # of Postgres, that drivers know an error by

    def failing_sql(self) -> bytes:
        """What is in Postgres's log, then."""
        return b"pooled host refuses: " + self.message.encode()

    def encode_error(self) -> bytes:
        told = ErrorResponse(
            sqlstate=self.sqlstate, message=self.message, hint=self.hint, routine=self.routine, severity="ERROR"
        )
        return told.encode()


SYNTAX_ERROR = "42601"
SYNTAX_ERROR_TOKEN = b'"pooled"'  # where Postgres sees it in that text


LISTEN = StatementRejection(
    message="LISTEN does not work on a pooled host: no session stays there to hear anything",
    hint=f"Listen on {_DIRECT}. NOTIFY works on both.",
)
TEMPORARY_OBJECT = StatementRejection(
    message="a temporary object made outside a transaction block would be gone at once on a pooled host",
    hint=f"Begin a transaction first: it lasts until the end of that. Or use {_DIRECT}.",
)
SQL_PREPARE = StatementRejection(
    message="PREPARE outside a transaction block would be forgotten at once on a pooled host",
    hint=f"Let the driver prepare, which works here; or begin a transaction first; or use {_DIRECT}.",
)
CURSOR_WITH_HOLD = StatementRejection(
    message="a cursor WITH HOLD declared outside a transaction block would be closed at once on a pooled host",
    hint=f"Begin a transaction first and read it there. Or use {_DIRECT}.",
)
SESSION_LOCKS = {
    function: StatementRejection(
        message=f"{function} locks for a whole session, and a pooled host keeps none beyond a transaction",
        hint=f"Use {function.replace('advisory', 'advisory_xact')} in a transaction. Or use {_DIRECT}.",
    )
    for function in (
        "pg_advisory_lock",
        "pg_advisory_lock_shared",
        "pg_try_advisory_lock",
        "pg_try_advisory_lock_shared",
    )
}
