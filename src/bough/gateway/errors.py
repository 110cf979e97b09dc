"""What goes wrong, as Postgres reports it: the one table from kinds to SQLSTATE."""

from bough.errors import Kind, PlatformError
from bough.gateway.wire.messages import Trouble

SQLSTATE = {
    Kind.INVALID: "08P01",  # protocol_violation
    Kind.UNAUTHENTICATED: "28P01",  # invalid_password
    Kind.DENIED: "28000",  # invalid_authorization_specification
    Kind.NOT_FOUND: "28P01",  # as for a wrong password: a stranger learns nothing
    Kind.CAPACITY: "53000",  # insufficient_resources
    Kind.TAKEN: "55006",  # object_in_use
    Kind.PRECONDITION: "55000",  # object_not_in_prerequisite_state
    Kind.RULE: "55000",
    Kind.LOCKED: "55006",
    Kind.RATE: "53300",  # too_many_connections
    Kind.UNAVAILABLE: "57P03",  # cannot_connect_now
    Kind.INTERNAL: "XX000",
}


class Refused(Exception):
    """The client is told this and nothing more."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.message)
        self.trouble = trouble


def trouble_of(error: PlatformError) -> Trouble:
    return Trouble(code=SQLSTATE[error.kind], message=error.public)


def wrong_password(role: str) -> Refused:
    """In Postgres's own words; also for roles and endpoints that do not exist."""
    return Refused(Trouble(code="28P01", message=f'password authentication failed for user "{role}"'))


UNENCRYPTED = Refused(
    Trouble(
        code="28000",
        message="this server takes encrypted connections only",
        hint="Add sslmode=require to the connection string.",
    )
)
NOT_POSTGRES = Refused(
    Trouble(code="08P01", message="direct TLS without the ALPN protocol postgresql", hint="Use a newer client.")
)
TOO_SLOW = Trouble(code="57014", message="the client took too long to log in")
NO_WAKE = Trouble(
    code="57P03",
    message="the compute did not wake in time",
    hint="Try again; the operations of the project say what it is waiting for.",
)
STOPPING = Trouble(code="57P01", message="terminating connection due to administrator command: the gateway is stopping")
BACKEND_DIED = Trouble(
    code="57P02",
    message="terminating connection because the compute ended unexpectedly",
    hint="Connect again; what was committed is kept.",
)
