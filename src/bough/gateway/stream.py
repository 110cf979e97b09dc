"""A channel that one may wait for: how a connection speaks before its bytes are only copied."""

import asyncio
from collections.abc import Callable

from bough.gateway.channel import Channel
from bough.gateway.wire.framing import HEADER_LENGTH, Message, parse_body_length


class StreamEnded(Exception):
    """The other end finished in the middle of what it had to say."""


class Stream:
    """Reads exactly what is asked for and not a byte more, so whoever comes next misses none."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._loop = asyncio.get_running_loop()

    async def read_exactly(self, count: int) -> bytes:
        data = bytearray(count)
        room = memoryview(data)
        while room:
            got = self.channel.receive(room)
            if got is None:
                await self.wait_readable()
            elif got == 0:
                raise StreamEnded
            else:
                room = room[got:]
        return bytes(data)

    async def read_message(self, limit: int) -> Message:
        head = await self.read_exactly(HEADER_LENGTH)
        return Message(head[:1], await self.read_exactly(parse_body_length(head, limit)))

    async def send(self, data: bytes) -> None:
        room = memoryview(data)
        while room:
            sent = self.channel.send(room)
            room = room[sent:]
            if room:
                await self.wait_writable()

    async def wait_readable(self) -> None:
        await self._until(self._loop.add_reader, self._loop.remove_reader)

    async def wait_writable(self) -> None:
        await self._until(self._loop.add_writer, self._loop.remove_writer)

    async def _until(self, add: Callable[..., None], remove: Callable[[int], object]) -> None:
        happened: asyncio.Future[None] = self._loop.create_future()
        add(self.channel.fd, _resolve, happened)
        try:
            await happened
        finally:
            remove(self.channel.fd)


def _resolve(happened: "asyncio.Future[None]") -> None:
    if not happened.done():
        happened.set_result(None)
