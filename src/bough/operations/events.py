"""Tell waiters that something happened: the single signal that rises."""

import asyncio
from contextlib import suppress


class Notifier:
    """Wakes everyone who waits. Take `next()` before you look, and no beat in between is missed."""

    def __init__(self) -> None:
        self._next: asyncio.Event = asyncio.Event()

    def notify(self) -> None:
        self._next.set()
        self._next = asyncio.Event()

    def next_event(self) -> asyncio.Event:
        return self._next

    async def wait(self, timeout: float, event: asyncio.Event | None = None) -> None:
        # Not `wait_for`: in 3.11 a beat at the moment of a cancellation makes it forget that one.
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await (event or self._next).wait()


class Events:
    def __init__(self) -> None:
        self.enqueued = Notifier()  # there is new work
        self.ended = Notifier()  # an operation ended
