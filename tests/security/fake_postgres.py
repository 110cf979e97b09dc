"""A program in the place of a compute's Postgres: it listens on a real socket and says what a test has it say."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bough.engine.local.folders import SOCKET_NAME

MAX_BYTES = 64 * 1024**2  # bytes that it sends at most: a test shall end, whatever the other side takes
TEXT, BYTES, BOOL, INT8, TEXT_ARRAY = 25, 17, 16, 20, 1009


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!I", 4 + len(body)) + body


def authentication(code: int, rest: bytes = b"") -> bytes:
    return message(b"R", struct.pack("!I", code) + rest)


def parameter(name: str, value: str) -> bytes:
    return message(b"S", f"{name}\0{value}\0".encode())


READY = message(b"Z", b"I")
GREETING = (
    authentication(0)
    + parameter("server_version", "17.0")
    + parameter("client_encoding", "UTF8")
    + parameter("integer_datetimes", "on")
    + message(b"K", struct.pack("!II", 1, 2))
    + READY
)


def description(columns: Sequence[tuple[str, int]]) -> bytes:
    told = b"".join(name.encode() + b"\0" + struct.pack("!IHIhiH", 0, 0, kind, -1, -1, 0) for name, kind in columns)
    return message(b"T", struct.pack("!H", len(columns)) + told)


def row(*values: bytes | None) -> bytes:
    told = b"".join(struct.pack("!i", -1) if each is None else struct.pack("!i", len(each)) + each for each in values)
    return message(b"D", struct.pack("!H", len(values)) + told)


@dataclass
class FakeConnection:
    """One connection, and what went over it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    sent: int = 0
    received: list[bytes] = field(default_factory=list)  # the kinds of messages, after the first packet

    async def read_startup(self) -> None:
        (length,) = struct.unpack("!I", await self.reader.readexactly(4))
        await self.reader.readexactly(length - 4)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()
        self.sent += len(data)

    async def send_endlessly(self, data: bytes) -> None:
        while self.sent < MAX_BYTES:
            await self.send(data)

    async def read_message(self) -> bytes:
        kind = await self.reader.readexactly(1)
        (length,) = struct.unpack("!I", await self.reader.readexactly(4))
        await self.reader.readexactly(length - 4)
        self.received.append(kind)
        return kind


async def wait_until_accepted() -> None:
    """Every connection that was made has its task: asyncio fails on one that a closed server accepted a moment ago."""
    for _ in range(5):
        await asyncio.sleep(0)


Script = Callable[[FakeConnection], Awaitable[None]]


@asynccontextmanager
async def serve_fake_postgres(folder: Path, script: Script) -> AsyncIterator[list[FakeConnection]]:
    """All connections that came; each is served by the script to its end."""
    lines: list[FakeConnection] = []
    serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = FakeConnection(reader, writer)
        lines.append(line)
        this = asyncio.current_task()
        assert this is not None
        serving[this] = writer
        try:
            # A task that ends as cancelled would be logged by the streams of asyncio.
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await line.read_startup()
                await script(line)
        finally:
            writer.close()

    folder.mkdir(parents=True, exist_ok=True)
    server = await asyncio.start_unix_server(serve, str(folder / SOCKET_NAME))
    try:
        yield lines
    finally:
        await wait_until_accepted()
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving)
        for writer in serving.values():
            with suppress(OSError):
                await writer.wait_closed()


def make_query_script(
    columns: Sequence[tuple[str, int]],
    rows: Callable[[FakeConnection], Awaitable[None]],
    parameters: Sequence[int] = (),
) -> Script:
    """Greets as Postgres, describes what it was asked for by these columns, and has the other say the rows."""

    taken = message(b"t", struct.pack(f"!H{len(parameters)}I", len(parameters), *parameters))

    async def script(line: FakeConnection) -> None:
        await line.send(GREETING)
        while True:
            match await line.read_message():
                case b"P":
                    await line.send(message(b"1"))
                case b"D":
                    await line.send(taken + description(columns))
                case b"B":
                    await line.send(message(b"2"))
                case b"E":
                    await rows(line)
                    await line.send(message(b"C", b"SELECT 1\0"))
                case b"S":
                    await line.send(READY)
                case b"Q":
                    await line.send(message(b"C", b"SELECT 1\0") + READY)
                case b"X":
                    return

    return script


async def never_reply(line: FakeConnection) -> None:
    """Greets, and never says anything again."""
    await line.send(GREETING)
    await asyncio.Event().wait()
