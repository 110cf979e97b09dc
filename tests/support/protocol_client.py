"""A client of the pooled host that sends single protocol messages, in any order and grouping."""

import asyncio
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType

from bough.gateway.wire import messages
from bough.gateway.wire.framing import Message
from bough.gateway.wire.messages import ErrorResponse
from support import protocol_messages
from support.gateway import ENDPOINT, HOST, InProcessGateway, WireClient

POOLED_HOST = HOST.replace(ENDPOINT, f"{ENDPOINT}-pooler")
TIMEOUT = 20.0  # a longer wait would never end

Row = tuple[str | None, ...]


@dataclass(slots=True)
class Reply:
    """The messages of a reply, usually up to a ReadyForQuery."""

    rows: list[Row] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    errors: list[ErrorResponse] = field(default_factory=list)
    notices: list[ErrorResponse] = field(default_factory=list)
    copied: bytes = b""
    result: str | None = None  # of a function call
    message_types: str = ""  # the types of all messages, in order
    status: str = ""

    @property
    def sqlstate(self) -> str | None:
        """The SQLSTATE of the first error, if any."""
        return self.errors[0].sqlstate if self.errors else None

    @property
    def value(self) -> str | None:
        """The only value of the only row."""
        assert not self.errors, self.errors
        ((value,),) = self.rows
        return value

    def add_message(self, message: Message) -> None:
        self.message_types += message.type.decode()
        match message.type:
            case b"D":
                self.rows.append(_row(message.body))
            case b"C":
                self.tags.append(message.body[:-1].decode())
            case messages.ERROR_RESPONSE:
                self.errors.append(messages.parse_error_response(message.body))
            case messages.NOTICE_RESPONSE:
                self.notices.append(messages.parse_error_response(message.body))
            case b"d":
                self.copied += message.body
            case b"V":
                self.result = _values(message.body, 0, 1)[0]
            case messages.READY_FOR_QUERY:
                self.status = message.body.decode()


def _row(body: bytes) -> Row:
    return _values(body, 2, int.from_bytes(body[:2]))


def _values(body: bytes, at: int, count: int) -> Row:
    values: list[str | None] = []
    for _ in range(count):
        length = int.from_bytes(body[at : at + 4], signed=True)
        at += 4
        values.append(None if length < 0 else body[at : at + length].decode())
        at += max(length, 0)
    return tuple(values)


class ConnectionEnded(Exception):
    """The connection has ended with this error."""


class ProtocolClient:
    def __init__(self, wire: WireClient) -> None:
        self.wire = wire
        self.timeout = TIMEOUT
        self.parameters: dict[str, str] = {}
        self.key = b""
        self.received: list[Message] = []  # everything, until the test clears it

    async def log_in(self, host: str, minor: int = 0, **startup: str) -> Reply:
        await self.wire.start_tls(host=host, alpn="postgresql")
        self.wire.send_startup(minor, **startup)
        await self.wire.authenticate()
        return await self.read_reply()

    def send(self, *parts: bytes) -> None:
        self.wire.writer.write(b"".join(parts))

    async def read_message(self) -> Message:
        async with asyncio.timeout(self.timeout):
            message = await self.wire.read_message()
        self.received.append(message)
        if message.type == messages.PARAMETER_STATUS:
            name, value = messages.parse_parameter_status(message.body)
            self.parameters[name] = value
        elif message.type == messages.BACKEND_KEY_DATA:
            self.key = message.body
        return message

    async def read_until(self, kinds: str) -> Reply:
        """Read all messages up to one of these types."""
        reply = Reply()
        while not reply.message_types or reply.message_types[-1] not in kinds:
            reply.add_message(await self.read_message())
            if reply.errors and reply.errors[-1].severity == "FATAL":
                raise ConnectionEnded(reply.errors[-1])
        return reply

    async def read_reply(self) -> Reply:
        return await self.read_until("Z")

    async def request_all(self, *parts: bytes) -> list[Reply]:
        """Send all messages in one write, and read a reply for each ReadyForQuery."""
        self.send(*parts)
        return [await self.read_reply() for _ in range(protocol_messages.count_ready_for_query(b"".join(parts)))]

    async def request(self, *parts: bytes) -> Reply:
        (reply,) = await self.request_all(*parts)
        return reply

    async def query(self, sql: str) -> Reply:
        return await self.request(protocol_messages.query(sql))

    async def fetch_value(self, sql: str) -> str | None:
        return (await self.query(sql)).value

    async def execute(self, *statements: str) -> None:
        """Run each statement by itself; none may fail."""
        for sql in statements:
            reply = await self.query(sql)
            assert not reply.errors, (sql, reply.errors)

    async def extended_query(self, sql: str, *values: str | None) -> Reply:
        return await self.request(protocol_messages.extended_query(sql, *values), protocol_messages.SYNC)

    async def copy_in(self, sql: str, *parts: bytes, fail: str = "") -> Reply:
        self.send(protocol_messages.query(sql))
        started = await self.read_until("GZ")
        if started.message_types[-1] == "Z":
            return started
        last = protocol_messages.copy_fail(fail) if fail else protocol_messages.COPY_DONE
        self.send(*(protocol_messages.copy_data(part) for part in parts), last)
        return await self.read_reply()

    async def read_error(self) -> ErrorResponse:
        """Read the next error, after which the connection must be closed."""
        async with asyncio.timeout(TIMEOUT):
            return await self.wire.read_error()

    async def is_silent(self, seconds: float = 0.3) -> bool:
        """Whether nothing is received for so long; a received byte is lost."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.wire.reader.read(1), seconds)
            return False
        return True

    async def terminate(self) -> None:
        """Send Terminate and wait until the connection is closed."""
        self.send(protocol_messages.TERMINATE)
        async with asyncio.timeout(TIMEOUT):
            await self.wire.reader.read()
        self.wire.close()

    def reset_connection(self) -> None:
        """Close the connection with a TCP reset."""
        sock = self.wire.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.wire.writer.transport.abort()


async def connect_pooled(
    gateway: InProcessGateway,
    startup: Mapping[str, str] = MappingProxyType({}),
    *,
    host: str = POOLED_HOST,
    minor: int = 0,
) -> ProtocolClient:
    """Return a client that has logged in on the pooled host."""
    client = ProtocolClient(await gateway.open_wire_client())
    await client.log_in(host, minor, **startup)
    return client
