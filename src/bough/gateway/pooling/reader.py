"""Reads from a client, except while there is a reason not to."""

import asyncio
from collections.abc import Callable


class ClientReader:
    """Removes the event loop's reader only when a blocked client sends something, because most send nothing."""

    __slots__ = ("_block_reasons", "_callback", "_fd", "_is_closed", "_is_reading", "_loop")

    def __init__(self, fd: int, on_readable: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._callback = on_readable
        self._block_reasons = 0  # one bit each
        self._is_reading = False
        self._is_closed = False

    def start(self) -> None:
        self._is_reading = True
        self._loop.add_reader(self._fd, self._on_readable)

    def block(self, reason: int) -> None:
        self._block_reasons |= reason

    def unblock(self, reason: int) -> None:
        self._block_reasons &= ~reason
        if not self._block_reasons and not self._is_reading and not self._is_closed:
            self.start()

    def is_blocked(self, reason: int) -> bool:
        return bool(self._block_reasons & reason)

    def close(self) -> None:
        self._is_closed = True
        self._loop.remove_reader(self._fd)

    def _on_readable(self) -> None:
        if self._block_reasons:
            self._is_reading = False
            self._loop.remove_reader(self._fd)
        else:
            self._callback()
