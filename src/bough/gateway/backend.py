"""Connects to a compute: wakes it if it is suspended, logs in, and reads its greeting and cancel key."""

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import NoReturn

from bough.domain.gateway_protocol import ComputeAddress
from bough.errors import Unavailable
from bough.gateway.cache import ControlCache
from bough.gateway.channel import ConnectionLost, PlainChannel
from bough.gateway.routing import ConnectionTarget
from bough.gateway.stream import Stream, StreamEnded
from bough.gateway.waking import ComputeWaker
from bough.gateway.wire import messages
from bough.gateway.wire.framing import Message, MessageDecoder
from bough.gateway.wire.protocol_error import ProtocolError
from bough.ids import EndpointId

# Limits on the greeting. The compute is a tenant's process, and whatever listens on its socket could send
# data without end.
MAX_GREETING_BYTES = 64 * 1024
MAX_GREETING_MESSAGES = 1000
GREETING_TIMEOUT_SECONDS = 30.0
_BUFFER_BYTES = 8192
_CANNOT_CONNECT_NOW = "57P03"
_RETRY_DELAYS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    channel: PlainChannel
    address: ComputeAddress
    process_id: int
    cancel_key: bytes
    greeting_before_key: bytes  # the messages before its BackendKeyData
    greeting_after_key: bytes

    def without_greeting(self) -> "Backend":
        """Return a copy to keep for the life of the connection."""
        return replace(self, greeting_before_key=b"", greeting_after_key=b"")


class RejectedByPostgres(Exception):
    """Postgres rejected the login. Its error goes to the client unchanged."""

    def __init__(self, message: Message) -> None:
        super().__init__(messages.parse_error_response(message.body).message)
        self.message = message


class ComputeNotReady(Exception):
    """Nothing listens at the address, or Postgres is starting or stopping."""


class BackendConnector:
    def __init__(self, cache: ControlCache, waker: ComputeWaker) -> None:
        self._cache = cache
        self._waker = waker

    async def connect(self, endpoint: EndpointId, target: ConnectionTarget) -> Backend:
        """Retry until the caller's timeout: a compute that is just being suspended is woken again."""
        if address := self._cache.get_address(endpoint):
            try:
                return await _connect_and_log_in(address, target)
            except ComputeNotReady:
                self._cache.invalidate_address(endpoint)
        delays = itertools.chain(_RETRY_DELAYS, itertools.repeat(_RETRY_DELAYS[-1]))
        while True:
            try:
                return await _connect_and_log_in(await self._waker.wake(endpoint), target)
            except ComputeNotReady:
                self._cache.invalidate_address(endpoint)
            await asyncio.sleep(next(delays))


async def _connect_and_log_in(address: ComputeAddress, target: ConnectionTarget) -> Backend:
    async with open_stream(address) as stream:
        assert isinstance(stream.channel, PlainChannel)
        parameters = {"user": target.role, "database": target.database, **target.parameters}
        try:
            async with asyncio.timeout(GREETING_TIMEOUT_SECONDS):
                await stream.send(messages.encode_startup(parameters))
                greeting, remainder = await _read_greeting(stream)
            return _build_backend(stream.channel, address, greeting, remainder)
        except (StreamEnded, ConnectionLost) as error:
            raise ComputeNotReady from error
        except TimeoutError as error:
            raise Unavailable("The compute did not complete the login in time; try again.") from error
        except ProtocolError as error:
            raise Unavailable(
                f"The compute's reply to the login does not follow the Postgres protocol: {error}."
            ) from error


def _build_backend(
    channel: PlainChannel, address: ComputeAddress, greeting: list[Message], remainder: bytes
) -> Backend:
    at = next((i for i, message in enumerate(greeting) if message.type == messages.BACKEND_KEY_DATA), None)
    if at is None:
        raise ProtocolError("it sent no cancel key")
    process_id, key = messages.parse_backend_key_data(greeting[at].body)
    return Backend(
        channel=channel,
        address=address,
        process_id=process_id,
        cancel_key=key,
        greeting_before_key=b"".join(message.encode() for message in greeting[:at]),
        greeting_after_key=b"".join(message.encode() for message in greeting[at + 1 :]) + remainder,
    )


async def _read_greeting(stream: Stream) -> tuple[list[Message], bytes]:
    """Return all messages up to the first ReadyForQuery, and the bytes received after it."""
    greeting: list[Message] = []
    decoder = MessageDecoder(MAX_GREETING_BYTES)
    buffer = memoryview(bytearray(_BUFFER_BYTES))
    remaining = MAX_GREETING_BYTES
    while True:
        count = stream.channel.receive(buffer)
        if count is None:
            await stream.wait_readable()
            continue
        if count == 0:
            raise StreamEnded
        remaining -= count
        decoder.feed(buffer[:count])
        while (message := decoder.next_message()) is not None:
            if message.type == messages.ERROR_RESPONSE:
                _raise_login_error(message)
            greeting.append(message)
            if message.type == messages.READY_FOR_QUERY:
                return greeting, decoder.take_remainder()
        if remaining <= 0 or len(greeting) > MAX_GREETING_MESSAGES:
            raise ProtocolError(
                f"it sent more than {MAX_GREETING_BYTES} bytes or {MAX_GREETING_MESSAGES} messages before ReadyForQuery"
            )


def _raise_login_error(message: Message) -> NoReturn:
    if messages.parse_error_response(message.body).sqlstate == _CANNOT_CONNECT_NOW:
        raise ComputeNotReady
    raise RejectedByPostgres(message)


@asynccontextmanager
async def open_stream(address: ComputeAddress) -> AsyncIterator[Stream]:
    """Open a stream to a compute; it is closed if the block raises."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        await _connect(sock, address.socket_path)
        yield Stream(PlainChannel(sock))
    except BaseException:
        sock.close()
        raise


async def _connect(sock: socket.socket, path: str) -> None:
    for delay in (*_RETRY_DELAYS, *_RETRY_DELAYS):
        try:
            sock.connect(path)
        except BlockingIOError:  # the listen queue is full, and a Unix socket does not wait for it
            await asyncio.sleep(delay)
        except (
            ConnectionError,
            FileNotFoundError,
            PermissionError,
        ) as error:  # PermissionError: the socket is just being created
            raise ComputeNotReady from error
        except OSError as error:
            raise Unavailable(f"The compute cannot be reached: {error.strerror}.") from error
        else:
            return
    raise Unavailable("The compute accepts no more connections now; try again.")
