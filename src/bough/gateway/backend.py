"""The way into a compute: wake it when it sleeps, dial it, log in, learn its greeting and cancel key."""

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import NoReturn

from bough.errors import Unavailable
from bough.gateway.cache import ControlCache
from bough.gateway.channel import ConnectionLost, PlainChannel
from bough.gateway.control_plane import ComputeAddress
from bough.gateway.routing import ConnectionTarget
from bough.gateway.stream import Stream, StreamEnded
from bough.gateway.waking import ComputeWaker
from bough.gateway.wire import messages
from bough.gateway.wire.framing import Message, MessageDecoder
from bough.gateway.wire.protocol_error import ProtocolError
from bough.ids import EndpointId

# What a compute may say before its session begins. It is a tenant's process: somebody who took its socket
# could go on for ever.
MAX_GREETING_BYTES = 64 * 1024
MAX_GREETING_MESSAGES = 1000
GREETING_TIMEOUT_SECONDS = 30.0
_BUFFER_BYTES = 8192
_CANNOT_CONNECT_NOW = "57P03"
_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    channel: PlainChannel
    address: ComputeAddress
    process_id: int
    cancel_key: bytes
    greeting_before_key: bytes  # what it said, around its cancel key
    greeting_after_key: bytes

    def without_greeting(self) -> "Backend":
        """For as long as the connection lasts."""
        return replace(self, greeting_before_key=b"", greeting_after_key=b"")


class RejectedByPostgres(Exception):
    """Postgres let nobody in; its words go to the client as they are."""

    def __init__(self, message: Message) -> None:
        super().__init__(messages.parse_error_response(message.body).message)
        self.message = message


class ComputeNotReady(Exception):
    """Nobody answers there, or it is starting or stopping."""


class BackendConnector:
    def __init__(self, cache: ControlCache, waking: ComputeWaker) -> None:
        self._remembering = cache
        self._waking = waking

    async def connect(self, endpoint: EndpointId, target: ConnectionTarget) -> Backend:
        """Tries as long as the caller waits: a compute that just goes to sleep is woken again."""
        if address := self._remembering.get_address(endpoint):
            try:
                return await _connect_and_log_in(address, target)
            except ComputeNotReady:
                self._remembering.invalidate_address(endpoint)
        pauses = itertools.chain(_PAUSES, itertools.repeat(_PAUSES[-1]))
        while True:
            try:
                return await _connect_and_log_in(await self._waking.wake(endpoint), target)
            except ComputeNotReady:
                self._remembering.invalidate_address(endpoint)
            await asyncio.sleep(next(pauses))


async def _connect_and_log_in(address: ComputeAddress, target: ConnectionTarget) -> Backend:
    async with open_stream(address) as line:
        assert isinstance(line.channel, PlainChannel)
        parameters = {"user": target.role, "database": target.database, **target.parameters}
        try:
            async with asyncio.timeout(GREETING_TIMEOUT_SECONDS):
                await line.send(messages.encode_startup(parameters))
                said, rest = await _read_greeting(line)
            return _build_backend(line.channel, address, said, rest)
        except (StreamEnded, ConnectionLost) as error:
            raise ComputeNotReady from error
        except TimeoutError as error:
            raise Unavailable("The compute takes too long to let somebody in; try again.") from error
        except ProtocolError as error:
            raise Unavailable(f"The compute does not greet as Postgres does: {error}.") from error


def _build_backend(channel: PlainChannel, address: ComputeAddress, said: list[Message], rest: bytes) -> Backend:
    at = next((i for i, message in enumerate(said) if message.type == messages.BACKEND_KEY_DATA), None)
    if at is None:
        raise ProtocolError("it gave no cancel key")
    process, key = messages.parse_backend_key_data(said[at].body)
    return Backend(
        channel=channel,
        address=address,
        process_id=process,
        cancel_key=key,
        greeting_before_key=b"".join(message.encode() for message in said[:at]),
        greeting_after_key=b"".join(message.encode() for message in said[at + 1 :]) + rest,
    )


async def _read_greeting(line: Stream) -> tuple[list[Message], bytes]:
    """All messages up to the first `ReadyForQuery`, and what came right behind it."""
    said: list[Message] = []
    framing = MessageDecoder(MAX_GREETING_BYTES)
    room = memoryview(bytearray(_BUFFER_BYTES))
    left = MAX_GREETING_BYTES
    while True:
        got = line.channel.receive(room)
        if got is None:
            await line.wait_readable()
            continue
        if got == 0:
            raise StreamEnded
        left -= got
        framing.feed(room[:got])
        while (message := framing.next_message()) is not None:
            if message.type == messages.ERROR_RESPONSE:
                _raise_login_error(message)
            said.append(message)
            if message.type == messages.READY_FOR_QUERY:
                return said, framing.take_remainder()
        if left <= 0 or len(said) > MAX_GREETING_MESSAGES:
            raise ProtocolError(
                f"it says more than {MAX_GREETING_BYTES} bytes or {MAX_GREETING_MESSAGES} messages before it is ready"
            )


def _raise_login_error(message: Message) -> NoReturn:
    if messages.parse_error_response(message.body).sqlstate == _CANNOT_CONNECT_NOW:
        raise ComputeNotReady
    raise RejectedByPostgres(message)


@asynccontextmanager
async def open_stream(address: ComputeAddress) -> AsyncIterator[Stream]:
    """A line to a compute; it is closed again when the block raises."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        await _connect(sock, address.socket_path)
        yield Stream(PlainChannel(sock))
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
            raise ComputeNotReady from error
        except OSError as error:
            raise Unavailable(f"The compute cannot be reached: {error.strerror}.") from error
        else:
            return
    raise Unavailable("The compute takes no more connections at this moment; try again.")
