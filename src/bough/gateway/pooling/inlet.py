"""The way in from a client, which is not read while there is a reason not to."""

import asyncio
from collections.abc import Callable


class Inlet:
    """Most clients say nothing while they wait, so the reader is taken away only when one does."""

    __slots__ = ("_blocks", "_fd", "_is_closed", "_is_read", "_loop", "_readable")

    def __init__(self, fd: int, readable: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._readable = readable
        self._blocks = 0  # reasons, a bit each
        self._is_read = False
        self._is_closed = False

    def open(self) -> None:
        self._is_read = True
        self._loop.add_reader(self._fd, self._came)

    def block(self, why: int) -> None:
        self._blocks |= why

    def unblock(self, why: int) -> None:
        self._blocks &= ~why
        if not self._blocks and not self._is_read and not self._is_closed:
            self.open()

    def is_blocked(self, why: int) -> bool:
        return bool(self._blocks & why)

    def close(self) -> None:
        self._is_closed = True
        self._loop.remove_reader(self._fd)

    def _came(self) -> None:
        if self._blocks:
            self._is_read = False
            self._loop.remove_reader(self._fd)
        else:
            self._readable()
