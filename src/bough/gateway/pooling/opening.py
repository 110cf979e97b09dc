"""Opening a member: what may come of it."""

import asyncio
from dataclasses import replace

from bough.errors import PlatformError
from bough.gateway.backend import Backend, BackendConnector, RejectedByPostgres
from bough.gateway.errors import WAKE_TIMEOUT, ConnectionRejected, malformed_reply_error, to_error_response
from bough.gateway.pooling.reported_parameters import ReportedParameters
from bough.gateway.routing import ConnectionTarget
from bough.gateway.wire import messages
from bough.gateway.wire.protocol_error import ProtocolError
from bough.ids import EndpointId

WAKE_TIMEOUT_SECONDS = 90.0
APPLICATION_NAME = "application_name"
_TOO_MANY = "53300"


class ServerLoginFailed(Exception):
    """Nobody who waits can be served: `words` say why, in the protocol."""

    def __init__(self, error: bytes) -> None:
        super().__init__()
        self.error = error


class TooManyConnections(Exception):
    """Others have all the connections that Postgres takes, so it is to be tried again."""


async def log_in_server(
    connector: BackendConnector, endpoint: EndpointId, target: ConnectionTarget, application_name: bytes
) -> tuple[Backend, ReportedParameters]:
    """A session whose application_name is `name`, and what it reports; a compute that sleeps is woken for it."""
    parameters = {**target.parameters, APPLICATION_NAME: application_name.decode(errors="surrogateescape")}
    try:
        async with asyncio.timeout(WAKE_TIMEOUT_SECONDS):
            backend = await connector.connect(endpoint, replace(target, parameters=parameters))
    except TimeoutError:
        raise ServerLoginFailed(WAKE_TIMEOUT.encode()) from ConnectionRejected(WAKE_TIMEOUT)
    except RejectedByPostgres as refused:
        if messages.parse_error_response(refused.message.body).sqlstate == _TOO_MANY:
            raise TooManyConnections from refused
        raise ServerLoginFailed(refused.message.encode()) from refused
    except PlatformError as error:
        raise ServerLoginFailed(to_error_response(error).encode()) from error
    try:
        return backend, ReportedParameters.from_greeting(backend.greeting_before_key)
    except ProtocolError as error:
        backend.channel.close()
        trouble = malformed_reply_error(str(error))
        raise ServerLoginFailed(trouble.encode()) from ConnectionRejected(trouble)
