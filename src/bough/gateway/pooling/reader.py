"""The way in from a client, which is not read while there is a reason not to."""

import asyncio
from collections.abc import Callable


class ClientReader:
    """Most clients say nothing while they wait, so the reader is taken away only when one does."""

    __slots__ = ("_blocks", "_fd", "_is_closed", "_is_read", "_loop", "_readable")

    def __init__(self, fd: int, on_readable: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._readable = on_readable
        self._blocks = 0  # reasons, a bit each
        self._is_read = False
        self._is_closed = False

    def start(self) -> None:
        self._is_read = True
        self._loop.add_reader(self._fd, self._on_readable)

    def block(self, reason: int) -> None:
        self._blocks |= reason

    def unblock(self, reason: int) -> None:
        self._blocks &= ~reason
        if not self._blocks and not self._is_read and not self._is_closed:
            self.start()

    def is_blocked(self, reason: int) -> bool:
        return bool(self._blocks & reason)

    def close(self) -> None:
        self._is_closed = True
        self._loop.remove_reader(self._fd)

    def _on_readable(self) -> None:
        if self._blocks:
            self._is_read = False
            self._loop.remove_reader(self._fd)
        else:
            self._readable()
