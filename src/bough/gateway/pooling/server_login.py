"""How Postgres greets the clients of a pool: as it greeted its first member. Who comes before that waits."""

import asyncio

from bough.domain.pooler import PoolSettings
from bough.gateway.errors import ConnectionRejected, query_wait_timeout_error
from bough.gateway.pooling.opening import APPLICATION_NAME
from bough.gateway.pooling.reported_parameters import ReportedParameters


class ServerGreeting:
    def __init__(self) -> None:
        self._heard: ReportedParameters | None = None
        self._waiting: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        """How many wait for it."""
        return len(self._waiting)

    @property
    def is_known(self) -> bool:
        return self._heard is not None

    def get_for(self, application_name: bytes) -> ReportedParameters:
        """As a client of this application_name hears it."""
        assert self._heard is not None
        return ReportedParameters.intern({**self._heard.values, APPLICATION_NAME.encode(): application_name})

    def add_waiter(self) -> "asyncio.Future[None]":
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(asked)
        return asked

    async def wait(self, waiter: "asyncio.Future[None]", settings: PoolSettings) -> None:
        try:
            async with asyncio.timeout(settings.wait_seconds or None):
                await waiter
        except TimeoutError:
            raise ConnectionRejected(query_wait_timeout_error(settings)) from None
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def set_known(self, reported_parameters: ReportedParameters) -> None:
        self._heard = reported_parameters
        for each in self._take_waiters():
            each.set_result(None)

    def fail(self, reason: BaseException) -> None:
        for each in self._take_waiters():
            each.set_exception(reason)

    def _take_waiters(self) -> list[asyncio.Future[None]]:
        waiting, self._waiting = self._waiting, []
        return [each for each in waiting if not each.done()]
