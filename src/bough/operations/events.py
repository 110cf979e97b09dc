"""Notifications inside one process: an operation was enqueued, an operation ended."""

import asyncio
from contextlib import suppress


class Notifier:
    """Wakes all waiters. Call `next_event` before reading the state, so that no notification is missed."""

    def __init__(self) -> None:
        self._next: asyncio.Event = asyncio.Event()

    def notify(self) -> None:
        self._next.set()
        self._next = asyncio.Event()

    def next_event(self) -> asyncio.Event:
        return self._next

    async def wait(self, timeout: float, event: asyncio.Event | None = None) -> None:
        # Not `wait_for`: in Python 3.11 it swallows a cancellation that coincides with the event.
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await (event or self._next).wait()


class Events:
    def __init__(self) -> None:
        self.enqueued = Notifier()  # an operation was added or became due
        self.ended = Notifier()  # an operation ended
