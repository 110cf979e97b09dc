"""The way out to one end of a connection: what it does not take at once waits here, and goes as it can."""

import asyncio
from collections.abc import Callable

from bough.gateway.channel import Channel, ConnectionLost


class BufferedWriter:
    __slots__ = ("_channel", "_flushed", "_loop", "_lost", "unsent")

    def __init__(self, channel: Channel, on_flushed: Callable[[], None], on_lost: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel = channel
        self._flushed = on_flushed  # all of it went, after it had to wait
        self._lost = on_lost  # nothing will go any more
        self.unsent = b""  # while there is any, it is full

    def write(self, data: memoryview | bytes | bytearray) -> bool:
        """Whether all of it went; then `flushed` is not called."""
        if self.unsent:
            self.unsent += data
            return False
        try:
            sent = self._channel.send(data)
        except ConnectionLost:
            self._lost()
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
            return self._lost()
        self.unsent = self.unsent[sent:]
        if not self.unsent:
            self._loop.remove_writer(self._channel.fd)
            self._flushed()
        return None
