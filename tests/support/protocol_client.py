"""A client of the pooled host that says each message itself, in any order and in as few writes as it likes."""

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
TIMEOUT = 20.0  # who waits longer would wait for ever

Row = tuple[str | None, ...]


@dataclass(slots=True)
class Reply:
    """What came back, as a rule up to a ReadyForQuery."""

    rows: list[Row] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    errors: list[ErrorResponse] = field(default_factory=list)
    notices: list[ErrorResponse] = field(default_factory=list)
    copied: bytes = b""
    result: str | None = None  # of a function call
    message_types: str = ""  # the types of all messages in their order
    status: str = ""

    @property
    def sqlstate(self) -> str | None:
        """SQLSTATE of the error, when there was one."""
        return self.errors[0].sqlstate if self.errors else None

    @property
    def value(self) -> str | None:
        """The only value of the only row."""
        assert not self.errors, self.errors
        ((value,),) = self.rows
        return value

    def add_message(self, heard: Message) -> None:
        self.message_types += heard.type.decode()
        match heard.type:
            case b"D":
                self.rows.append(_row(heard.body))
            case b"C":
                self.tags.append(heard.body[:-1].decode())
            case messages.ERROR_RESPONSE:
                self.errors.append(messages.parse_error_response(heard.body))
            case messages.NOTICE_RESPONSE:
                self.notices.append(messages.parse_error_response(heard.body))
            case b"d":
                self.copied += heard.body
            case b"V":
                self.result = _values(heard.body, 0, 1)[0]
            case messages.READY_FOR_QUERY:
                self.status = heard.body.decode()


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
    """The connection is over; this was the last thing said."""


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

    def send(self, *pieces: bytes) -> None:
        self.wire.writer.write(b"".join(pieces))

    async def read_message(self) -> Message:
        async with asyncio.timeout(self.timeout):
            heard = await self.wire.read_message()
        self.received.append(heard)
        if heard.type == messages.PARAMETER_STATUS:
            name, value = messages.parse_parameter_status(heard.body)
            self.parameters[name] = value
        elif heard.type == messages.BACKEND_KEY_DATA:
            self.key = heard.body
        return heard

    async def read_until(self, kinds: str) -> Reply:
        """All up to one of these types."""
        answer = Reply()
        while not answer.message_types or answer.message_types[-1] not in kinds:
            answer.add_message(await self.read_message())
            if answer.errors and answer.errors[-1].severity == "FATAL":
                raise ConnectionEnded(answer.errors[-1])
        return answer

    async def read_reply(self) -> Reply:
        return await self.read_until("Z")

    async def request_all(self, *pieces: bytes) -> list[Reply]:
        """All in one write, and an answer to each that Postgres ends."""
        self.send(*pieces)
        return [await self.read_reply() for _ in range(protocol_messages.count_ready_for_query(b"".join(pieces)))]

    async def request(self, *pieces: bytes) -> Reply:
        (answer,) = await self.request_all(*pieces)
        return answer

    async def query(self, sql: str) -> Reply:
        return await self.request(protocol_messages.query(sql))

    async def fetch_value(self, sql: str) -> str | None:
        return (await self.query(sql)).value

    async def execute(self, *statements: str) -> None:
        """Each by itself and without fault."""
        for sql in statements:
            answer = await self.query(sql)
            assert not answer.errors, (sql, answer.errors)

    async def extended_query(self, sql: str, *values: str | None) -> Reply:
        return await self.request(protocol_messages.extended_query(sql, *values), protocol_messages.SYNC)

    async def copy_in(self, sql: str, *pieces: bytes, fail: str = "") -> Reply:
        self.send(protocol_messages.query(sql))
        began = await self.read_until("GZ")
        if began.message_types[-1] == "Z":
            return began
        last = protocol_messages.copy_fail(fail) if fail else protocol_messages.COPY_DONE
        self.send(*(protocol_messages.copy_data(piece) for piece in pieces), last)
        return await self.read_reply()

    async def read_error(self) -> ErrorResponse:
        """The error that comes next, after which the connection is closed."""
        async with asyncio.timeout(TIMEOUT):
            return await self.wire.read_error()

    async def is_silent(self, seconds: float = 0.3) -> bool:
        """Whether nothing comes for so long; a byte that came instead is lost."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.wire.reader.read(1), seconds)
            return False
        return True

    async def terminate(self) -> None:
        """As a polite client leaves."""
        self.send(protocol_messages.TERMINATE)
        async with asyncio.timeout(TIMEOUT):
            await self.wire.reader.read()
        self.wire.close()

    def reset_connection(self) -> None:
        """With a reset, in the middle of anything: as one leaves whose machine was switched off and came back."""
        sock = self.wire.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.wire.writer.transport.abort()


async def connect_pooled(
    doorway: InProcessGateway,
    startup: Mapping[str, str] = MappingProxyType({}),
    *,
    host: str = POOLED_HOST,
    minor: int = 0,
) -> ProtocolClient:
    """Someone who has logged in at the pooled host."""
    speaker = ProtocolClient(await doorway.open_wire_client())
    await speaker.log_in(host, minor, **startup)
    return speaker
