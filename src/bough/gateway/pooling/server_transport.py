"""A connection with Postgres as such: it is read and written to, paused, cancelled, closed."""

import asyncio
from abc import ABC, abstractmethod

from bough.gateway import cancel
from bough.gateway.backend import Backend
from bough.gateway.pooling.writer import BufferedWriter


class ServerTransport(ABC):
    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.is_closed = False
        self._loop = asyncio.get_running_loop()
        self._writer = BufferedWriter(backend.channel, self._flushed, self._unreachable)
        self._is_paused = False
        self._cancels = 0  # on their way
        self._is_release_pending = False  # it is given back when the last of them has arrived
        self._loop.add_reader(backend.channel.fd, self._readable)

    async def cancel(self) -> None:
        """Whatever it does for the client now; nobody else gets it before the signal has arrived."""
        self._cancels += 1
        try:
            await cancel.send_cancel(self.backend)
        finally:
            self._cancels -= 1
            if self._is_release_pending:
                self._release()

    def pause(self) -> None:
        self._is_paused = True
        self._loop.remove_reader(self.backend.channel.fd)

    def resume(self) -> None:
        if self._is_paused and not self.is_closed:
            self._is_paused = False
            self._loop.add_reader(self.backend.channel.fd, self._readable)

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._loop.remove_reader(self.backend.channel.fd)
        self._writer.stop()
        self.backend.channel.close()
        self._on_closed()

    def _release(self) -> None:
        self._is_release_pending = self._cancels > 0
        if not self._is_release_pending:
            self._on_released()

    @abstractmethod
    def _readable(self) -> None:
        """Postgres has said something, or has gone."""

    @abstractmethod
    def _flushed(self) -> None:
        """It has taken all that it was sent, after that had to wait."""

    @abstractmethod
    def _unreachable(self) -> None:
        """It will take nothing any more."""

    @abstractmethod
    def _on_released(self) -> None:
        """Nobody has it any longer."""

    @abstractmethod
    def _on_closed(self) -> None:
        """It is closed."""
