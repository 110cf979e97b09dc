"""Rule 12: the gateway rejects physical replication; logical replication works with the allowed plugins."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from bough.gateway.wire import messages
from bough.gateway.wire.framing import Message
from bough.gateway.wire.replication import MAX_INSPECTED_BYTES, find_command_error
from security.login_steps import send_startup, use_cheap_verifier
from support import platform
from support.gateway import ENDPOINT, PASSWORD, InProcessGateway, WireClient, open_gateway
from support.postgres import PostgresServer

ALLOWED_COMMANDS = [
    "IDENTIFY_SYSTEM",
    "SHOW wal_level",
    "select 1",
    'CREATE_REPLICATION_SLOT "a" TEMPORARY LOGICAL pgoutput',
    "CREATE_REPLICATION_SLOT b TEMPORARY LOGICAL \"test_decoding\" (SNAPSHOT 'nothing');",
]
PHYSICAL_COMMANDS = [
    "BASE_BACKUP",
    "base_backup (LABEL 'x')",
    "\t\n BASE_BACKUP",
    "START_REPLICATION 0/0",
    "START_REPLICATION SLOT x PHYSICAL 0/0",
    "START_REPLICATION SLOT aLOGICAL 0/0",
    'START_REPLICATION SLOT "a"PHYSICAL 0/0 TIMELINE 1',
    "CREATE_REPLICATION_SLOT x PHYSICAL",
    "CREATE_REPLICATION_SLOT x TEMPORARY PHYSICAL RESERVE_WAL",
    "READ_REPLICATION_SLOT x",
    "TIMELINE_HISTORY 1",
    "UPLOAD_MANIFEST",
]
OTHER_PLUGINS = ['"/tmp/lib.so"', "mine", '"PGOUTPUT"', '"a""b"']


@pytest.fixture(scope="module")
def publisher() -> Iterator[PostgresServer]:
    """A server with logical replication, like a compute of a project that has it enabled."""
    with platform.temporary_folder() as folder:
        server = PostgresServer(folder, "-c", "wal_level=logical")
        server.start()
        yield server
        server.stop()


@pytest.fixture
async def gateway(publisher: PostgresServer) -> AsyncIterator[InProcessGateway]:
    await (await publisher.connect()).close()
    async with open_gateway(publisher) as opened:
        use_cheap_verifier(opened)
        yield opened


async def connect_for_replication(gateway: InProcessGateway, value: str = "database") -> WireClient:
    wire = await send_startup(gateway, options=f"endpoint={ENDPOINT}", replication=value)
    await wire.authenticate()
    return wire


@pytest.mark.parametrize("value", ["true", "on", "1", "YES"])
async def test_a_physical_connection_is_refused(gateway: InProcessGateway, value: str) -> None:
    error = await (await connect_for_replication(gateway, value)).read_error()
    assert (error.sqlstate, error.message) == ("0A000", "physical replication is not supported here")
    assert "replication=database" in error.hint
    assert ("wake", ENDPOINT) not in gateway.control_plane.calls


async def test_what_belongs_to_logical_replication_works(gateway: InProcessGateway) -> None:
    wire = await connect_for_replication(gateway)
    await wire.read_until(messages.READY_FOR_QUERY)
    for text in ALLOWED_COMMANDS:
        wire.send(b"Q", text.encode() + b"\0")
        received = await wire.read_until(messages.READY_FOR_QUERY)
        assert messages.ERROR_RESPONSE not in {message.type for message in received}, text


@pytest.mark.parametrize("text", PHYSICAL_COMMANDS)
async def test_physical_commands_are_refused_on_logical_connections(gateway: InProcessGateway, text: str) -> None:
    wire = await connect_for_replication(gateway)
    await wire.read_until(messages.READY_FOR_QUERY)
    message = Message(b"Q", text.encode() + b"\0").encode()
    for byte in message:  # byte by byte, so that the message arrives in pieces
        wire.writer.write(bytes([byte]))
        await wire.writer.drain()
    error = await wire.read_error()
    assert (error.sqlstate, error.message) == ("0A000", "physical replication is not supported here")


@pytest.mark.parametrize("plugin", OTHER_PLUGINS)
async def test_other_plugins_are_refused(gateway: InProcessGateway, plugin: str) -> None:
    wire = await connect_for_replication(gateway)
    await wire.read_until(messages.READY_FOR_QUERY)
    wire.send(b"Q", f"CREATE_REPLICATION_SLOT x LOGICAL {plugin}\0".encode())
    error = await wire.read_error()
    assert error.sqlstate == "0A000"
    assert "is not available here" in error.message
    assert "pgoutput" in error.hint


async def test_a_long_query_goes_by_and_a_hidden_command_does_not(gateway: InProcessGateway) -> None:
    wire = await connect_for_replication(gateway)
    await wire.read_until(messages.READY_FOR_QUERY)
    wire.send(b"Q", b"select length('" + b"x" * 300_000 + b"')\0")
    received = await wire.read_until(messages.READY_FOR_QUERY)
    assert received[1].body.endswith(b"300000")
    wire.send(b"Q", b" " * 300_000 + b"BASE_BACKUP\0")
    assert (await wire.read_error()).sqlstate == "0A000"


@pytest.mark.parametrize("text", [" " * 20, "CREATE_REPLICATION_SLOT x LOGICAL pgoutput", "START_REPLICATION", "BASE_"])
def test_what_was_not_seen_whole_is_refused(text: str) -> None:
    assert find_command_error(text.encode(), is_whole=False) is not None


def test_sql_is_not_looked_at() -> None:
    assert find_command_error(b"select 1".ljust(MAX_INSPECTED_BYTES), is_whole=False) is None
    assert find_command_error(b"/* BASE_BACKUP */ select 1", is_whole=True) is None


async def test_a_subscription_through_the_gateway_works(
    gateway: InProcessGateway, publisher: PostgresServer, postgres_server: PostgresServer
) -> None:
    """The subscriber is a real Postgres that connects to the gateway with TLS."""
    name = f"s{uuid.uuid4().hex[:8]}"
    publishing, subscribing = await publisher.connect(), await postgres_server.connect()
    conninfo = f"host=127.0.0.1 port={gateway.port} sslmode=require user=store dbname=postgres"
    try:
        for session in (publishing, subscribing):
            await session.execute(f"create table {name} (n int primary key)")
        await publishing.execute(f"create publication {name} for table {name}")
        await publishing.execute(f"insert into {name} values (1)")
        await subscribing.execute(
            f"create subscription {name} connection "
            f"'{conninfo} password=''{PASSWORD}'' options=endpoint={ENDPOINT}' publication {name}"
        )
        await publishing.execute(f"insert into {name} values (2)")
        for _ in range(1500):
            if await subscribing.fetchval(f"select count(*) from {name}") == 2:
                break
            await asyncio.sleep(0.02)
        assert await subscribing.fetchval(f"select count(*) from {name}") == 2
    finally:
        await subscribing.execute(f"drop subscription if exists {name}")
        await subscribing.execute(f"drop table if exists {name}")
        await subscribing.close()
        await publishing.close()
