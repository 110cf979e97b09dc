"""Large messages are forwarded in parts: the gateway never buffers a whole one."""

import gc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bough.gateway.wire import messages
from support.pooler import Pooler
from support.protocol_client import ProtocolClient
from support.protocol_messages import SYNC, describe, execute, parse, query

MEGABYTE = 1024 * 1024
EVERYDAY, LONG = 64, 400  # megabytes
ROOM = 24 * MEGABYTE  # far less than a message, far more than the usual buffers


class PeakMemory:
    """Return the peak memory of this process, client and gateway together, since the last reset."""

    def __init__(self) -> None:
        gc.collect()  # garbage of earlier tests, freed later, would hide growth
        Path("/proc/self/clear_refs").write_text("5")
        self.before = self._read_peak()

    @staticmethod
    def _read_peak() -> int:
        status = Path("/proc/self/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) * 1024

    def get_growth(self) -> int:
        return self._read_peak() - self.before


@pytest.fixture
def megabytes(is_long_run: bool) -> int:
    return LONG if is_long_run else EVERYDAY


async def send_chunks(connection: ProtocolClient, chunks: Iterator[bytes]) -> None:
    """Send no more at once than the other side takes."""
    for chunk in chunks:
        connection.send(chunk)
        await connection.wire.writer.drain()


def large_message(kind: bytes, before: bytes, megabytes: int, after: bytes) -> Iterator[bytes]:
    """Send one message with so many bytes in its middle."""
    length = 4 + len(before) + megabytes * MEGABYTE + len(after)
    yield kind + length.to_bytes(4) + before
    for _ in range(megabytes):
        yield b"x" * MEGABYTE
    yield after


def large_bind(name: bytes, megabytes: int) -> Iterator[bytes]:
    size = (megabytes * MEGABYTE).to_bytes(4)
    return large_message(b"B", b"\0" + name + b"\0\0\0\0\1" + size, megabytes, b"\0\0")


async def read_message_lengths(connection: ProtocolClient) -> AsyncIterator[tuple[bytes, int]]:
    """Read a reply and return its size without keeping it."""
    reader, kind = connection.wire.reader, b""
    while kind != messages.READY_FOR_QUERY:
        head = await reader.readexactly(5)
        kind, left = head[:1], int.from_bytes(head[1:]) - 4
        yield kind, left
        while left:
            left -= len(await reader.read(min(left, 65536)))


async def test_a_large_parameter(one_server_connection: Pooler, megabytes: int) -> None:
    client, other = await one_server_connection.connect_many(2)
    await client.request(parse("s", "select length($1::text)"), SYNC)
    await other.query("select 1")
    memory = PeakMemory()
    await send_chunks(client, large_bind(b"s", megabytes))
    assert (await client.request(execute(), SYNC)).value == str(megabytes * MEGABYTE)
    assert memory.get_growth() < ROOM
    assert await other.fetch_value("select 1") == "1"


async def test_a_large_parameter_of_a_statement_that_is_not_there(
    one_server_connection: Pooler, megabytes: int
) -> None:
    client, other = await one_server_connection.connect_many(2)
    memory = PeakMemory()
    await send_chunks(client, large_bind(b"unknown", megabytes))
    assert (await client.request(execute(), SYNC)).sqlstate == "26000"
    assert memory.get_growth() < ROOM
    assert await other.fetch_value("select 1") == "1"


@pytest.mark.parametrize("kind", ["query", "parse"])
async def test_a_large_text(one_server_connection: Pooler, megabytes: int, kind: str) -> None:
    """A named statement must be kept, so it is buffered; nothing else is."""
    client, other = await one_server_connection.connect_many(2)
    memory = PeakMemory()
    if kind == "query":
        await send_chunks(client, large_message(b"Q", b"select length('", megabytes, b"')\0"))
        reply = await client.read_reply()
    else:
        await send_chunks(client, large_message(b"P", b"\0select length('", megabytes, b"')\0\0\0"))
        reply = await client.request(parse("t", "select 1"), describe("S", "t"), SYNC)
        assert reply.message_types == "11tTZ"
        assert await client.fetch_value("select 1") == "1"
        return
    assert reply.value == str(megabytes * MEGABYTE)
    assert memory.get_growth() < ROOM
    assert await other.fetch_value("select 1") == "1"


async def test_a_large_result(one_server_connection: Pooler, megabytes: int) -> None:
    client, other = await one_server_connection.connect_many(2)
    memory = PeakMemory()
    for sql in (
        f"select repeat('x', {megabytes * MEGABYTE})",
        f"select repeat('x', {MEGABYTE}) from generate_series(1, {megabytes})",
        f"copy (select repeat('x', {MEGABYTE}) from generate_series(1, {megabytes})) to stdout",
    ):
        client.send(query(sql))
        received = [(kind, size) async for kind, size in read_message_lengths(client)]
        assert sum(size for kind, size in received if kind in b"Dd") >= megabytes * MEGABYTE
        assert await other.fetch_value("select 1") == "1"
    assert memory.get_growth() < ROOM


async def test_a_large_copy(one_server_connection: Pooler, megabytes: int) -> None:
    client, other = await one_server_connection.connect_many(2)
    await client.execute("create unlogged table lines (line text)")
    memory = PeakMemory()
    client.send(query("copy lines from stdin"))
    for _ in range(megabytes):
        await send_chunks(client, large_message(b"d", b"", 1, b"\n"))
    client.send(b"c\0\0\0\4")
    assert (await client.read_reply()).tags == [f"COPY {megabytes}"]
    assert memory.get_growth() < ROOM
    assert await other.fetch_value("select count(*) from lines") == str(megabytes)


async def test_someone_who_does_not_read_costs_no_memory(one_server_connection: Pooler, megabytes: int) -> None:
    """They keep the server connection meanwhile, and Postgres waits."""
    client, _ = await one_server_connection.connect_many(2)
    await client.fetch_value("select 1")
    memory = PeakMemory()
    client.wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.send(query(f"select repeat('x', 1000) from generate_series(1, {megabytes * 1000})"))
    is_blocked_query = "select exists (select from pg_stat_activity where datname = $1 and wait_event = 'ClientWrite')"
    await one_server_connection.wait_until(is_blocked_query, one_server_connection.database)
    assert memory.get_growth() < ROOM
    client.wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
    assert [kind async for kind, _ in read_message_lengths(client)].count(b"D") == megabytes * 1000
    assert memory.get_growth() < ROOM


def test_the_measure_measures() -> None:
    """Otherwise the tests would show nothing."""
    memory = PeakMemory()
    held = bytearray(2 * ROOM)
    held[::4096] = b"x" * len(held[::4096])
    assert memory.get_growth() > ROOM
