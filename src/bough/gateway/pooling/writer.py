"""Writes to one end of a connection, and buffers what it does not take at once."""

import asyncio
from collections.abc import Callable

from bough.gateway.channel import Channel, ConnectionLost


class BufferedWriter:
    __slots__ = ("_channel", "_loop", "_on_flushed", "_on_lost", "unsent")

    def __init__(self, channel: Channel, on_flushed: Callable[[], None], on_lost: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel = channel
        self._on_flushed = on_flushed  # called when all buffered data has been sent
        self._on_lost = on_lost  # called when the connection is lost
        self.unsent = b""  # buffered data

    def write(self, data: memoryview | bytes | bytearray) -> bool:
        """Send the data; return False if some of it was buffered, then `on_flushed` follows."""
        if self.unsent:
            self.unsent += data
            return False
        try:
            sent = self._channel.send(data)
        except ConnectionLost:
            self._on_lost()
            return True
        if sent == len(data):
            return True
        self.unsent = bytes(data[sent:])
        self._loop.add_writer(self._channel.fd, self._flush)
        return False

    def stop(self) -> None:
        if self.unsent:
            self.unsent = b""
            self._loop.remove_writer(self._channel.fd)

    def _flush(self) -> None:
        try:
            sent = self._channel.send(self.unsent)
        except ConnectionLost:
            self.stop()
            return self._on_lost()
        self.unsent = self.unsent[sent:]
        if not self.unsent:
            self._loop.remove_writer(self._channel.fd)
            self._on_flushed()
        return None
