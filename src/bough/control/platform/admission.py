"""Admission control: limits concurrency and rate. Excess callers wait in arrival order."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bough import clock


class Admission:
    """After an idle second, one second's worth of callers is admitted without a pause."""

    def __init__(self, concurrency: int, per_second: float) -> None:
        self._slots = asyncio.Semaphore(concurrency)
        self._order_lock = asyncio.Lock()
        self._pause = 1 / per_second
        self._next = clock.monotonic() - 1.0  # when the next caller is due at an even rate

    @asynccontextmanager
    async def admit(self) -> AsyncIterator[None]:
        async with self._slots:
            async with self._order_lock:
                now = clock.monotonic()
                self._next = max(self._next + self._pause, now - 1.0)
                if self._next > now:
                    await asyncio.sleep(self._next - now)
            yield
