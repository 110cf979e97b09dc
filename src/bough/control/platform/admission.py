"""A door with a porter: so many at once, so many a second; the rest wait, in the order they came."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bough import clock


class Admission:
    """After a quiet time a second's worth may enter together."""

    def __init__(self, concurrency: int, per_second: float) -> None:
        self._slots = asyncio.Semaphore(concurrency)
        self._order = asyncio.Lock()
        self._pause = 1 / per_second
        self._next = clock.monotonic() - 1.0  # when the next one would enter if they came evenly

    @asynccontextmanager
    async def admit(self) -> AsyncIterator[None]:
        async with self._slots:
            async with self._order:
                now = clock.monotonic()
                self._next = max(self._next + self._pause, now - 1.0)
                if self._next > now:
                    await asyncio.sleep(self._next - now)
            yield
