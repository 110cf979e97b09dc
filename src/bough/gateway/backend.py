"""The way into a compute: wake it when it sleeps, dial it, log in, learn its greeting and cancel key."""

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import NoReturn

from bough.errors import Unavailable
from bough.gateway.channel import Lost, PlainChannel
from bough.gateway.line import Ended, Line
from bough.gateway.plane import Address
from bough.gateway.remembering import Remembering
from bough.gateway.routing import Target
from bough.gateway.waking import Waking
from bough.gateway.wire import messages
from bough.gateway.wire.framing import Framing, Message
from bough.gateway.wire.malformed import Malformed
from bough.ids import EndpointId

# What a compute may say before its session begins. It is a tenant's process: somebody who took its socket
# could go on for ever.
MOST_BYTES = 64 * 1024
MOST_MESSAGES = 1000
GREETING_SECONDS = 30.0
_ROOM = 8192
_CANNOT_CONNECT_NOW = "57P03"
_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    channel: PlainChannel
    address: Address
    process: int
    key: bytes
    before_key: bytes  # what it said, around its cancel key
    after_key: bytes

    def without_greeting(self) -> "Backend":
        """For as long as the connection lasts."""
        return replace(self, before_key=b"", after_key=b"")


class RefusedByPostgres(Exception):
    """Postgres let nobody in; its words go to the client as they are."""

    def __init__(self, message: Message) -> None:
        super().__init__(messages.trouble(message.body).message)
        self.message = message


class NotNow(Exception):
    """Nobody answers there, or it is starting or stopping."""


class Backends:
    def __init__(self, remembering: Remembering, waking: Waking) -> None:
        self._remembering = remembering
        self._waking = waking

    async def open(self, endpoint: EndpointId, target: Target) -> Backend:
        """Tries as long as the caller waits: a compute that just goes to sleep is woken again."""
        if address := self._remembering.address(endpoint):
            try:
                return await _logged_in(address, target)
            except NotNow:
                self._remembering.drop_address(endpoint)
        pauses = itertools.chain(_PAUSES, itertools.repeat(_PAUSES[-1]))
        while True:
            try:
                return await _logged_in(await self._waking.wake(endpoint), target)
            except NotNow:
                self._remembering.drop_address(endpoint)
            await asyncio.sleep(next(pauses))


async def _logged_in(address: Address, target: Target) -> Backend:
    async with dialled(address) as line:
        assert isinstance(line.channel, PlainChannel)
        parameters = {"user": target.role, "database": target.database, **target.parameters}
        try:
            async with asyncio.timeout(GREETING_SECONDS):
                await line.send(messages.startup(parameters))
                said, rest = await _greeting(line)
            return _backend(line.channel, address, said, rest)
        except (Ended, Lost) as error:
            raise NotNow from error
        except TimeoutError as error:
            raise Unavailable("The compute takes too long to let somebody in; try again.") from error
        except Malformed as error:
            raise Unavailable(f"The compute does not greet as Postgres does: {error}.") from error


def _backend(channel: PlainChannel, address: Address, said: list[Message], rest: bytes) -> Backend:
    at = next((i for i, message in enumerate(said) if message.type == messages.BACKEND_KEY), None)
    if at is None:
        raise Malformed("it gave no cancel key")
    process, key = messages.parse_backend_key(said[at].body)
    return Backend(
        channel=channel,
        address=address,
        process=process,
        key=key,
        before_key=b"".join(message.encoded() for message in said[:at]),
        after_key=b"".join(message.encoded() for message in said[at + 1 :]) + rest,
    )


async def _greeting(line: Line) -> tuple[list[Message], bytes]:
    """All messages up to the first `ReadyForQuery`, and what came right behind it."""
    said: list[Message] = []
    framing = Framing(MOST_BYTES)
    room = memoryview(bytearray(_ROOM))
    left = MOST_BYTES
    while True:
        got = line.channel.receive(room)
        if got is None:
            await line.readable()
            continue
        if got == 0:
            raise Ended
        left -= got
        framing.feed(room[:got])
        while (message := framing.next()) is not None:
            if message.type == messages.ERROR:
                _refuse(message)
            said.append(message)
            if message.type == messages.READY:
                return said, framing.rest()
        if left <= 0 or len(said) > MOST_MESSAGES:
            raise Malformed(f"it says more than {MOST_BYTES} bytes or {MOST_MESSAGES} messages before it is ready")


def _refuse(message: Message) -> NoReturn:
    if messages.trouble(message.body).code == _CANNOT_CONNECT_NOW:
        raise NotNow
    raise RefusedByPostgres(message)


@asynccontextmanager
async def dialled(address: Address) -> AsyncIterator[Line]:
    """A line to a compute; it is closed again when the block raises."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        await _connect(sock, address.socket)
        yield Line(PlainChannel(sock))
    except BaseException:
        sock.close()
        raise


async def _connect(sock: socket.socket, path: str) -> None:
    for pause in (*_PAUSES, *_PAUSES):
        try:
            sock.connect(path)
        except BlockingIOError:  # more are waiting there than it takes; a unix socket does not queue us
            await asyncio.sleep(pause)
        except (ConnectionError, FileNotFoundError, PermissionError) as error:  # the last: it is just being made
            raise NotNow from error
        except OSError as error:
            raise Unavailable(f"The compute cannot be reached: {error.strerror}.") from error
        else:
            return
    raise Unavailable("The compute takes no more connections at this moment; try again.")
