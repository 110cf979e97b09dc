"""A fake Postgres server in place of a compute: it listens on a real socket and replies as a script says."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bough.engine.local.folders import SOCKET_NAME

MAX_BYTES = 64 * 1024**2  # bytes sent at most, so that a test ends even if the client reads without limit
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
    fields = b"".join(name.encode() + b"\0" + struct.pack("!IHIhiH", 0, 0, kind, -1, -1, 0) for name, kind in columns)
    return message(b"T", struct.pack("!H", len(columns)) + fields)


def row(*values: bytes | None) -> bytes:
    fields = b"".join(
        struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value for value in values
    )
    return message(b"D", struct.pack("!H", len(values)) + fields)


@dataclass
class FakeConnection:
    """One connection to the fake server, with counts of the traffic."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    sent: int = 0
    received: list[bytes] = field(default_factory=list)  # types of the messages after the startup packet

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
    """Waits until each accepted connection has a task: asyncio fails if a server closes before that."""
    for _ in range(5):
        await asyncio.sleep(0)


Script = Callable[[FakeConnection], Awaitable[None]]


@asynccontextmanager
async def serve_fake_postgres(folder: Path, script: Script) -> AsyncIterator[list[FakeConnection]]:
    """Yields the list of accepted connections; the script serves each of them."""
    connections: list[FakeConnection] = []
    serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = FakeConnection(reader, writer)
        connections.append(connection)
        task = asyncio.current_task()
        assert task is not None
        serving[task] = writer
        try:
            # asyncio streams log a task that ends with CancelledError.
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await connection.read_startup()
                await script(connection)
        finally:
            writer.close()

    folder.mkdir(parents=True, exist_ok=True)
    server = await asyncio.start_unix_server(serve, str(folder / SOCKET_NAME))
    try:
        yield connections
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
    """Returns a script that logs in as Postgres does, describes results by `columns` and calls `rows` to send them."""
    parameter_description = message(b"t", struct.pack(f"!H{len(parameters)}I", len(parameters), *parameters))

    async def script(connection: FakeConnection) -> None:
        await connection.send(GREETING)
        while True:
            match await connection.read_message():
                case b"P":
                    await connection.send(message(b"1"))
                case b"D":
                    await connection.send(parameter_description + description(columns))
                case b"B":
                    await connection.send(message(b"2"))
                case b"E":
                    await rows(connection)
                    await connection.send(message(b"C", b"SELECT 1\0"))
                case b"S":
                    await connection.send(READY)
                case b"Q":
                    await connection.send(message(b"C", b"SELECT 1\0") + READY)
                case b"X":
                    return

    return script


async def never_reply(connection: FakeConnection) -> None:
    """Completes the login and then never replies."""
    await connection.send(GREETING)
    await asyncio.Event().wait()
