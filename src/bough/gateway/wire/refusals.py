"""What a pooled host does not do, and the sentence that says so."""

from dataclasses import dataclass

from bough.gateway.wire.malformed import NOT_SUPPORTED
from bough.gateway.wire.messages import Trouble

_DIRECT = "the direct host: the same one without -pooler"


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error in place of what a client asked for.

    Postgres gets a text that it cannot parse, so that it fails where it would have run, with all that follows
    from an error; the client gets our words for it.
    """

    message: str
    hint: str
    code: str = NOT_SUPPORTED  # SQLSTATE
    routine: str = ""  # of Postgres, that drivers know an error by

    def text(self) -> bytes:
        """What is in Postgres's log, then."""
        return b"pooled host refuses: " + self.message.encode()

    def error(self) -> bytes:
        told = Trouble(code=self.code, message=self.message, hint=self.hint, routine=self.routine, severity="ERROR")
        return told.encoded()


SYNTAX_ERROR = "42601"
NEAR = b'"pooled"'  # where Postgres sees it in that text


LISTENING = Refusal(
    message="LISTEN does not work on a pooled host: no session stays there to hear anything",
    hint=f"Listen on {_DIRECT}. NOTIFY works on both.",
)
TEMPORARY = Refusal(
    message="a temporary object made outside a transaction block would be gone at once on a pooled host",
    hint=f"Begin a transaction first: it lasts until the end of that. Or use {_DIRECT}.",
)
PREPARING = Refusal(
    message="PREPARE outside a transaction block would be forgotten at once on a pooled host",
    hint=f"Let the driver prepare, which works here; or begin a transaction first; or use {_DIRECT}.",
)
HOLDING = Refusal(
    message="a cursor WITH HOLD declared outside a transaction block would be closed at once on a pooled host",
    hint=f"Begin a transaction first and read it there. Or use {_DIRECT}.",
)
LOCKING = {
    function: Refusal(
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
