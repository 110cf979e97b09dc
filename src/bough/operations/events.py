"""Tell waiters that something happened: the single signal that rises."""

import asyncio


class Pulse:
    """Wakes everyone who waits now. Whoever comes later waits for the next."""

    def __init__(self) -> None:
        self._next: asyncio.Event = asyncio.Event()

    def beat(self) -> None:
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self, timeout: float) -> None:
        try:
            await asyncio.wait_for(self._next.wait(), timeout)
        except TimeoutError:
            pass


class Events:
    def __init__(self) -> None:
        self.enqueued = Pulse()  # there is new work
        self.ended = Pulse()  # an operation ended
