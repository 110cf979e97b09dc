"""The transport of a server connection: reading, writing, pausing, canceling and closing."""

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
        self._writer = BufferedWriter(backend.channel, self._on_flushed, self._on_unreachable)
        self._is_paused = False
        self._pending_cancels = 0
        self._is_release_pending = False  # released when the last cancel has arrived
        self._loop.add_reader(backend.channel.fd, self._on_readable)

    async def cancel(self) -> None:
        """Cancel the running query. No other client gets the connection before the signal has arrived."""
        self._pending_cancels += 1
        try:
            await cancel.send_cancel(self.backend)
        finally:
            self._pending_cancels -= 1
            if self._is_release_pending:
                self._release()

    def pause(self) -> None:
        self._is_paused = True
        self._loop.remove_reader(self.backend.channel.fd)

    def resume(self) -> None:
        if self._is_paused and not self.is_closed:
            self._is_paused = False
            self._loop.add_reader(self.backend.channel.fd, self._on_readable)

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._loop.remove_reader(self.backend.channel.fd)
        self._writer.stop()
        self.backend.channel.close()
        self._on_closed()

    def _release(self) -> None:
        self._is_release_pending = self._pending_cancels > 0
        if not self._is_release_pending:
            self._on_released()

    @abstractmethod
    def _on_readable(self) -> None:
        """Postgres has sent data or closed the connection."""

    @abstractmethod
    def _on_flushed(self) -> None:
        """All buffered data has been sent."""

    @abstractmethod
    def _on_unreachable(self) -> None:
        """Postgres takes no more data."""

    @abstractmethod
    def _on_released(self) -> None:
        """The connection has no client any more."""

    @abstractmethod
    def _on_closed(self) -> None:
        """The connection is closed."""
