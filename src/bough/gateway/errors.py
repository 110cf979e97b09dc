"""The errors that the gateway sends to clients, and the table from error kinds to SQLSTATEs."""

from bough.domain.pooler import PoolSettings
from bough.errors import ErrorKind, PlatformError
from bough.gateway.wire.messages import ErrorResponse

SQLSTATE = {
    ErrorKind.INVALID: "08P01",  # protocol_violation
    ErrorKind.UNAUTHENTICATED: "28P01",  # invalid_password
    ErrorKind.DENIED: "28000",  # invalid_authorization_specification
    ErrorKind.NOT_FOUND: "28P01",  # as for a wrong password, so that clients cannot find out what exists
    ErrorKind.CAPACITY: "53000",  # insufficient_resources
    ErrorKind.CONFLICT: "55006",  # object_in_use
    ErrorKind.PRECONDITION: "55000",  # object_not_in_prerequisite_state
    ErrorKind.RULE: "55000",
    ErrorKind.LOCKED: "55006",
    ErrorKind.RATE_LIMIT: "53300",  # too_many_connections
    ErrorKind.UNAVAILABLE: "57P03",  # cannot_connect_now
    ErrorKind.INTERNAL: "XX000",
}


class ConnectionRejected(Exception):
    """The client gets this error and the connection is closed."""

    def __init__(self, error: ErrorResponse) -> None:
        super().__init__(error.message)
        self.error = error


def to_error_response(error: PlatformError) -> ErrorResponse:
    return ErrorResponse(sqlstate=SQLSTATE[error.kind], message=error.public_message)


def wrong_password_error(role: str) -> ConnectionRejected:
    """Use the message of Postgres, also for roles and endpoints that do not exist."""
    return ConnectionRejected(
        ErrorResponse(sqlstate="28P01", message=f'password authentication failed for user "{role}"')
    )


def endpoint_closed_error(reason: str, hint: str | None = None) -> ConnectionRejected:
    """Report control's reason, after the password was verified."""
    return ConnectionRejected(
        ErrorResponse(sqlstate="53400", message=reason, hint=hint or "")
    )  # configuration_limit_exceeded


ENCRYPTION_REQUIRED = ErrorResponse(
    sqlstate="28000",
    message="this server accepts encrypted connections only",
    hint="Add sslmode=require to the connection string.",
)
ALPN_REQUIRED = ErrorResponse(
    sqlstate="08P01", message="direct TLS requires the ALPN protocol postgresql", hint="Use a newer client."
)
LOCAL_SOCKET_DENIED = ErrorResponse(
    sqlstate="28000",
    message="a compute may not connect through the gateway's local socket",
    hint="Connect to the host of the endpoint, with sslmode=require.",
)
LOGIN_TIMEOUT = ErrorResponse(sqlstate="57014", message="the client took too long to log in")
WAKE_TIMEOUT = ErrorResponse(
    sqlstate="57P03",
    message="the compute did not wake in time",
    hint="Try again. The project's operations show what it is waiting for.",
)
GATEWAY_STOPPING = ErrorResponse(
    sqlstate="57P01", message="terminating connection due to administrator command: the gateway is stopping"
)
BACKEND_DIED = ErrorResponse(
    sqlstate="57P02",
    message="terminating connection because the compute ended unexpectedly",
    hint="Connect again. Committed transactions are kept.",
)
IDLE_IN_TRANSACTION_TIMEOUT = ErrorResponse(
    sqlstate="25P03",
    message="terminating connection due to idle-in-transaction timeout",
    hint="The limit is idle_transaction_timeout in the endpoint's pgbouncer_settings.",
)
CLIENT_IDLE_TIMEOUT = ErrorResponse(
    sqlstate="57P05",
    message="terminating connection due to idle-session timeout",
    hint="The limit is client_idle_timeout in the endpoint's pgbouncer_settings.",
)
POOLED_REPLICATION_UNSUPPORTED = ErrorResponse(
    sqlstate="0A000",
    message="replication is not supported on a pooled host",
    hint="Use the direct host: the same name without -pooler.",
)
QUERY_CANCELED = ErrorResponse(sqlstate="57014", message="canceling statement due to user request", severity="ERROR")


def session_reset_error(failure: ErrorResponse) -> ErrorResponse:
    return ErrorResponse(
        sqlstate="08006",
        message=f"the server connection could not be prepared for this client: {failure.message}",
        hint="Connect again. One possible cause is a session setting that can no longer be applied.",
    )


def malformed_reply_error(reason: str) -> ErrorResponse:
    return ErrorResponse(
        sqlstate="08006",
        message=f"the compute sent a malformed reply: {reason}",
        hint="Connect again. One possible cause is a session with very long settings.",
    )


def query_wait_timeout_error(settings: PoolSettings) -> ErrorResponse:
    return ErrorResponse(
        sqlstate="53300",
        message=(f"no server connection became free within {settings.wait_seconds:g} seconds: all of them are in use"),
        detail=f"The endpoint's pools may open {settings.servers} server connections, and "
        f"{settings.servers_per_pool} for one role and database.",
        hint="Keep transactions short, or give the endpoint a larger compute.",
    )
