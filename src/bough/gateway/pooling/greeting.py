"""How Postgres greets the clients of a pool: as it greeted its first member. Who comes before that waits."""

import asyncio

from bough.gateway.errors import Refused, no_server
from bough.gateway.plane import PoolSettings
from bough.gateway.pooling.opening import NAME
from bough.gateway.pooling.reported import Reported


class Greeting:
    def __init__(self) -> None:
        self._heard: Reported | None = None
        self._waiting: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        """How many wait for it."""
        return len(self._waiting)

    @property
    def is_known(self) -> bool:
        return self._heard is not None

    def of(self, name: bytes) -> Reported:
        """As a client of this application_name hears it."""
        assert self._heard is not None
        return Reported.of({**self._heard.values, NAME.encode(): name})

    def ask(self) -> "asyncio.Future[None]":
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(asked)
        return asked

    async def wait(self, asked: "asyncio.Future[None]", settings: PoolSettings) -> None:
        try:
            async with asyncio.timeout(settings.wait_seconds or None):
                await asked
        except TimeoutError:
            raise Refused(no_server(settings)) from None
        finally:
            if asked in self._waiting:
                self._waiting.remove(asked)

    def heard(self, reported: Reported) -> None:
        self._heard = reported
        for each in self._taken():
            each.set_result(None)

    def fail(self, reason: BaseException) -> None:
        for each in self._taken():
            each.set_exception(reason)

    def _taken(self) -> list[asyncio.Future[None]]:
        waiting, self._waiting = self._waiting, []
        return [each for each in waiting if not each.done()]
