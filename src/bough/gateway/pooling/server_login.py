"""Opens the server connections of a pool, and keeps the greeting of the first one for the pool's clients."""

import asyncio
from dataclasses import replace

from bough.domain.gateway_protocol import CLIENT_WAKE_TIMEOUT_SECONDS
from bough.domain.pooler import PoolSettings
from bough.errors import PlatformError
from bough.gateway.backend import Backend, BackendConnector, RejectedByPostgres
from bough.gateway.errors import (
    WAKE_TIMEOUT,
    ConnectionRejected,
    malformed_reply_error,
    query_wait_timeout_error,
    to_error_response,
)
from bough.gateway.pooling.reported_parameters import APPLICATION_NAME, ReportedParameters
from bough.gateway.routing import ConnectionTarget
from bough.gateway.wire import messages
from bough.gateway.wire.protocol_error import ProtocolError
from bough.ids import EndpointId

_TOO_MANY_CONNECTIONS = "53300"


class ServerLoginFailed(Exception):
    """No waiting client can be served. `error` is the ErrorResponse to send to them."""

    def __init__(self, error: bytes) -> None:
        super().__init__()
        self.error = error


class TooManyConnections(Exception):
    """Postgres has no free connection slots; the pool tries again."""


async def log_in_server(
    connector: BackendConnector, endpoint: EndpointId, target: ConnectionTarget, application_name: bytes
) -> tuple[Backend, ReportedParameters]:
    """Open a session with this application_name, waking the compute if needed."""
    parameters = {**target.parameters, APPLICATION_NAME: application_name.decode(errors="surrogateescape")}
    try:
        async with asyncio.timeout(CLIENT_WAKE_TIMEOUT_SECONDS):
            backend = await connector.connect(endpoint, replace(target, parameters=parameters))
    except TimeoutError:
        raise ServerLoginFailed(WAKE_TIMEOUT.encode()) from ConnectionRejected(WAKE_TIMEOUT)
    except RejectedByPostgres as rejected:
        if messages.parse_error_response(rejected.message.body).sqlstate == _TOO_MANY_CONNECTIONS:
            raise TooManyConnections from rejected
        raise ServerLoginFailed(rejected.message.encode()) from rejected
    except PlatformError as error:
        raise ServerLoginFailed(to_error_response(error).encode()) from error
    try:
        return backend, ReportedParameters.from_greeting(backend.greeting_before_key)
    except ProtocolError as error:
        backend.channel.close()
        response = malformed_reply_error(str(error))
        raise ServerLoginFailed(response.encode()) from ConnectionRejected(response)


class ServerGreeting:
    """The parameters that Postgres reported to the pool's first server connection. Clients wait until it is known."""

    def __init__(self) -> None:
        self._reported: ReportedParameters | None = None
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def waiting_count(self) -> int:
        """The number of waiting clients."""
        return len(self._waiters)

    @property
    def is_known(self) -> bool:
        return self._reported is not None

    def get_for(self, application_name: bytes) -> ReportedParameters:
        """Return the parameters for a client with this application_name."""
        assert self._reported is not None
        return ReportedParameters.intern({**self._reported.values, APPLICATION_NAME.encode(): application_name})

    def add_waiter(self) -> "asyncio.Future[None]":
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return waiter

    async def wait(self, waiter: "asyncio.Future[None]", settings: PoolSettings) -> None:
        try:
            async with asyncio.timeout(settings.wait_seconds or None):
                await waiter
        except TimeoutError:
            raise ConnectionRejected(query_wait_timeout_error(settings)) from None
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def set_known(self, reported_parameters: ReportedParameters) -> None:
        self._reported = reported_parameters
        for waiter in self._take_waiters():
            waiter.set_result(None)

    def fail(self, reason: BaseException) -> None:
        for waiter in self._take_waiters():
            waiter.set_exception(reason)

    def _take_waiters(self) -> list[asyncio.Future[None]]:
        waiters, self._waiters = self._waiters, []
        return [each for each in waiters if not each.done()]
