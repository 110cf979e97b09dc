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
from bough.gateway.wire.messages import Trouble
from gateway.doorway import ENDPOINT, HOST, Doorway, Wire
from gateway.pooling import phrases

POOLED = HOST.replace(ENDPOINT, f"{ENDPOINT}-pooler")
PATIENCE = 20.0  # who waits longer would wait for ever

Row = tuple[str | None, ...]


@dataclass(slots=True)
class Answer:
    """What came back, as a rule up to a ReadyForQuery."""

    rows: list[Row] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    notices: list[Trouble] = field(default_factory=list)
    copied: bytes = b""
    result: str | None = None  # of a function call
    kinds: str = ""  # the types of all messages in their order
    status: str = ""

    @property
    def code(self) -> str | None:
        """SQLSTATE of the error, when there was one."""
        return self.troubles[0].code if self.troubles else None

    @property
    def value(self) -> str | None:
        """The only value of the only row."""
        assert not self.troubles, self.troubles
        ((value,),) = self.rows
        return value

    def hear(self, heard: Message) -> None:
        self.kinds += heard.type.decode()
        match heard.type:
            case b"D":
                self.rows.append(_row(heard.body))
            case b"C":
                self.tags.append(heard.body[:-1].decode())
            case messages.ERROR:
                self.troubles.append(messages.trouble(heard.body))
            case messages.NOTICE:
                self.notices.append(messages.trouble(heard.body))
            case b"d":
                self.copied += heard.body
            case b"V":
                self.result = _values(heard.body, 0, 1)[0]
            case messages.READY:
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


class Ended(Exception):
    """The connection is over; this was the last thing said."""


class Speaker:
    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.patience = PATIENCE
        self.parameters: dict[str, str] = {}
        self.key = b""
        self.heard: list[Message] = []  # everything, until the test clears it

    async def enter(self, host: str, minor: int = 0, **startup: str) -> Answer:
        await self.wire.encrypt(host=host, alpn="postgresql")
        self.wire.start(minor, **startup)
        await self.wire.log_in()
        return await self.answer()

    def say(self, *pieces: bytes) -> None:
        self.wire.writer.write(b"".join(pieces))

    async def message(self) -> Message:
        async with asyncio.timeout(self.patience):
            heard = await self.wire.message()
        self.heard.append(heard)
        if heard.type == messages.PARAMETER:
            name, value = messages.parse_parameter_status(heard.body)
            self.parameters[name] = value
        elif heard.type == messages.BACKEND_KEY:
            self.key = heard.body
        return heard

    async def until(self, kinds: str) -> Answer:
        """All up to one of these types."""
        answer = Answer()
        while not answer.kinds or answer.kinds[-1] not in kinds:
            answer.hear(await self.message())
            if answer.troubles and answer.troubles[-1].severity == "FATAL":
                raise Ended(answer.troubles[-1])
        return answer

    async def answer(self) -> Answer:
        return await self.until("Z")

    async def asks(self, *pieces: bytes) -> list[Answer]:
        """All in one write, and an answer to each that Postgres ends."""
        self.say(*pieces)
        return [await self.answer() for _ in range(phrases.ends(b"".join(pieces)))]

    async def ask(self, *pieces: bytes) -> Answer:
        (answer,) = await self.asks(*pieces)
        return answer

    async def query(self, sql: str) -> Answer:
        return await self.ask(phrases.query(sql))

    async def value(self, sql: str) -> str | None:
        return (await self.query(sql)).value

    async def does(self, *statements: str) -> None:
        """Each by itself and without fault."""
        for sql in statements:
            answer = await self.query(sql)
            assert not answer.troubles, (sql, answer.troubles)

    async def extended(self, sql: str, *values: str | None) -> Answer:
        return await self.ask(phrases.ask(sql, *values), phrases.SYNC)

    async def copy_in(self, sql: str, *pieces: bytes, fail: str = "") -> Answer:
        self.say(phrases.query(sql))
        began = await self.until("GZ")
        if began.kinds[-1] == "Z":
            return began
        last = phrases.copy_fail(fail) if fail else phrases.COPY_DONE
        self.say(*(phrases.copy_data(piece) for piece in pieces), last)
        return await self.answer()

    async def trouble(self) -> Trouble:
        """The error that comes next, after which the connection is closed."""
        async with asyncio.timeout(PATIENCE):
            return await self.wire.trouble()

    async def is_silent(self, seconds: float = 0.3) -> bool:
        """Whether nothing comes for so long; a byte that came instead is lost."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.wire.reader.read(1), seconds)
            return False
        return True

    async def terminate(self) -> None:
        """As a polite client leaves."""
        self.say(phrases.TERMINATE)
        async with asyncio.timeout(PATIENCE):
            await self.wire.reader.read()
        self.wire.close()

    def drop(self) -> None:
        """With a reset, in the middle of anything: as one leaves whose machine was switched off and came back."""
        sock = self.wire.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.wire.writer.transport.abort()


async def pooled(
    doorway: Doorway, startup: Mapping[str, str] = MappingProxyType({}), *, host: str = POOLED, minor: int = 0
) -> Speaker:
    """Someone who has logged in at the pooled host."""
    speaker = Speaker(await doorway.wire())
    await speaker.enter(host, minor, **startup)
    return speaker
