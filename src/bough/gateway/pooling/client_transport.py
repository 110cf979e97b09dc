"""The transport of a pooled client: reading, writing, pausing, half-closing and closing."""

import asyncio
from abc import ABC, abstractmethod

from bough.gateway.activity import TrafficCounters
from bough.gateway.channel import Channel, ConnectionLost
from bough.gateway.pooling.reader import ClientReader
from bough.gateway.pooling.writer import BufferedWriter

HALF_CLOSED_SECONDS = 10.0  # how long a half-closed client gets replies
_BUFFER = bytearray(65536)
_BUFFER_VIEW = memoryview(_BUFFER)

# The reasons why the client is not read.
WAITING, _SERVER_BLOCKED, CLIENT_BLOCKED, _FINISHED = 1, 2, 4, 8


class ClientTransport(ABC):
    __slots__ = ("_channel", "_counters", "_has_ended", "_loop", "_reader", "_timer", "_writer")

    def __init__(self, channel: Channel, counters: TrafficCounters) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel = channel
        self._counters = counters
        self._writer = BufferedWriter(channel, self._on_flushed, self._on_unreachable)
        self._reader = ClientReader(channel.fd, self._on_readable)
        self._has_ended = False
        self._timer: asyncio.TimerHandle | None = None  # while the client is half-closed

    def start(self) -> None:
        self._reader.start()
        self._on_readable()  # TLS may have buffered data already

    @property
    def has_finished_sending(self) -> bool:
        """The client has closed its sending side."""
        return self._reader.is_blocked(_FINISHED)

    def write(self, data: memoryview | bytes) -> bool:
        self._counters.bytes_out += len(data)
        if self._writer.write(data):
            return True
        self._reader.block(CLIENT_BLOCKED)
        return False

    def pause_reading(self) -> None:
        self._reader.block(_SERVER_BLOCKED)

    def resume_reading(self) -> None:
        self._reader.unblock(_SERVER_BLOCKED)

    def _on_readable(self) -> None:
        try:
            count = self._channel.receive(_BUFFER_VIEW)
        except ConnectionLost:
            return self._on_lost()
        if count is None:
            return None
        if count == 0:
            return self._on_finished()
        self._counters.bytes_in += count
        return self._handle_input(_BUFFER, count, _BUFFER_VIEW)

    def _half_close(self) -> None:
        """Read no more, and end the session if the client has not got its replies in time."""
        self._reader.block(_FINISHED)
        self._timer = self._loop.call_later(HALF_CLOSED_SECONDS, self._on_lost)

    def _on_unreachable(self) -> None:
        self._loop.call_soon(self._on_lost)

    def _end(self) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        if self._timer is not None:
            self._timer.cancel()
        self._reader.close()
        self._writer.stop()
        self._channel.shutdown_write()
        self._channel.close()
        self._on_closed()

    @abstractmethod
    def _handle_input(self, data: bytes | bytearray, count: int, view: memoryview) -> None:
        """The client has sent `count` bytes; `view` is a view of `data`."""

    @abstractmethod
    def _on_flushed(self) -> None:
        """All buffered data has been sent."""

    @abstractmethod
    def _on_finished(self) -> None:
        """The client has closed its sending side, but may still read replies."""

    @abstractmethod
    def _on_lost(self) -> None:
        """The client has disconnected."""

    @abstractmethod
    def _on_closed(self) -> None:
        """The connection is closed."""
