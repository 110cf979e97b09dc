"""Awaitable reads and writes on a channel, for the phases of a connection before the relay."""

import asyncio
from collections.abc import Callable

from bough.gateway.channel import Channel
from bough.gateway.wire.framing import HEADER_LENGTH, Message, parse_body_length


class StreamEnded(Exception):
    """The peer closed the connection in the middle of a message."""


class Stream:
    """Reads exactly the requested bytes and never more, so that the relay misses none."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._loop = asyncio.get_running_loop()

    async def read_exactly(self, count: int) -> bytes:
        data = bytearray(count)
        remaining = memoryview(data)
        while remaining:
            received = self.channel.receive(remaining)
            if received is None:
                await self.wait_readable()
            elif received == 0:
                raise StreamEnded
            else:
                remaining = remaining[received:]
        return bytes(data)

    async def read_message(self, limit: int) -> Message:
        header = await self.read_exactly(HEADER_LENGTH)
        return Message(header[:1], await self.read_exactly(parse_body_length(header, limit)))

    async def send(self, data: bytes) -> None:
        remaining = memoryview(data)
        while remaining:
            sent = self.channel.send(remaining)
            remaining = remaining[sent:]
            if remaining:
                await self.wait_writable()

    async def wait_readable(self) -> None:
        await self._wait(self._loop.add_reader, self._loop.remove_reader)

    async def wait_writable(self) -> None:
        await self._wait(self._loop.add_writer, self._loop.remove_writer)

    async def _wait(self, add: Callable[..., None], remove: Callable[[int], object]) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()
        add(self.channel.fd, _resolve, ready)
        try:
            await ready
        finally:
            remove(self.channel.fd)


def _resolve(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
