"""What goes wrong, as Postgres reports it: the one table from kinds to SQLSTATE."""

from bough.errors import Kind, PlatformError
from bough.gateway.plane import PoolSettings
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


def closed(why: str) -> Refused:
    """Control's own words, for somebody who has the password."""
    return Refused(Trouble(code="53400", message=why))  # configuration_limit_exceeded


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
NOT_FOR_COMPUTES = Trouble(
    code="28000",
    message="a compute may not connect by the gateway's local socket",
    hint="Connect by the host of the endpoint, with sslmode=require.",
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
IDLE_IN_TRANSACTION = Trouble(
    code="25P03",
    message="terminating connection due to idle-in-transaction timeout",
    hint="The endpoint's pgbouncer_settings have idle_transaction_timeout.",
)
IDLE_CLIENT = Trouble(
    code="57P05",
    message="terminating connection due to idle-session timeout",
    hint="The endpoint's pgbouncer_settings have client_idle_timeout.",
)
NO_REPLICATION = Trouble(
    code="0A000",
    message="a pooled host takes no replication connections",
    hint="Use the direct host: the same one without -pooler.",
)
CANCELLED = Trouble(code="57014", message="canceling statement due to user request", severity="ERROR")


def not_clean(failure: Trouble) -> Trouble:
    return Trouble(
        code="08006",
        message=f"the server connection could not be prepared for this client: {failure.message}",
        hint="Connect again. Settings of the session that cannot be set any longer are a reason.",
    )


def no_postgres(why: str) -> Trouble:
    return Trouble(
        code="08006",
        message=f"the compute does not answer as Postgres does: {why}",
        hint="Connect again. A session whose settings are very long is a reason.",
    )


def no_server(pool: PoolSettings) -> Trouble:
    return Trouble(
        code="53300",
        message=f"no server connection became free in {pool.wait_seconds:g} seconds: all that may be used are in use",
        detail=f"Pooled clients of the endpoint have {pool.servers} of them, and those of one role and database "
        f"{pool.servers_per_pool}.",
        hint="Keep transactions short, or give the endpoint a larger compute.",
    )
