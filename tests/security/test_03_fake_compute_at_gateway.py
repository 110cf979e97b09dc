"""Rule 3: a fake server in place of a compute cannot exhaust the memory of a gateway worker."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from bough.domain.gateway_protocol import ComputeAddress
from bough.gateway import backend, cancel
from bough.gateway.pooling import replies, reported_parameters
from bough.gateway.wire import messages
from bough.gateway.wire.framing import Message
from bough.gateway.wire.messages import ErrorResponse
from security.fake_postgres import wait_until_accepted
from security.login_steps import send_startup
from support import platform
from support.control_plane import make_access
from support.gateway import ENDPOINT, PASSWORD, FakePostgresControlPlane, InProcessGateway, WireClient
from support.postgres import PostgresServer
from support.scram_client import make_verifier

MAX_SENT = 64 * 1024 * 1024  # bytes after which a fake server stops sending
IN_FLIGHT = 4 * 1024 * 1024  # bytes that the kernel may buffer between two sockets
NOTICE = Message(messages.NOTICE_RESPONSE, b"SNOTICE\0MSo it goes on.\0\0").encode()
READY = messages.READY_FOR_QUERY_HEADER + b"I"
BACKEND_KEY = messages.encode_backend_key_data(1, b"1234")
GREETING = messages.AUTHENTICATION_OK + messages.encode_parameter_status("server_version", "17") + BACKEND_KEY + READY
CANCEL_CODE = messages.encode_cancel_request(1, b"1234")[4:8]  # the code in place of a protocol version
HUGE_ROW = b"D" + (1 << 30).to_bytes(4)

Script = Callable[["FakeServerConnection"], Awaitable[None]]


class FakeServerConnection:
    """One connection to the fake server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.sent = 0

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        self.sent += len(data)
        await self.writer.drain()

    async def flood(self, make_message: Callable[[int], bytes]) -> None:
        """Sends until the gateway closes the connection or MAX_SENT bytes are sent."""
        number = 0
        while self.sent < MAX_SENT:
            batch = b"".join(make_message(number + offset) for offset in range(100))
            number += 100
            await self.send(batch)

    async def read_startup(self) -> bytes:
        length = int.from_bytes(await self.reader.readexactly(4))
        return await self.reader.readexactly(length - 4)

    async def read_query(self) -> bytes:
        head = await self.reader.readexactly(5)
        return await self.reader.readexactly(int.from_bytes(head[1:]) - 4)


class FakeServer:
    def __init__(self) -> None:
        self.script: Script = never_reply
        self.connections: list[FakeServerConnection] = []
        self.closed = asyncio.Event()
        self._serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = FakeServerConnection(reader, writer)
        self.connections.append(connection)
        task = asyncio.current_task()
        assert task is not None
        self._serving[task] = writer
        try:
            if (await connection.read_startup())[:4] != CANCEL_CODE:
                await self.script(connection)
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:  # asyncio streams log a cancelled task
            pass
        finally:
            self.closed.set()
            writer.close()

    async def close(self) -> None:
        """Closes all connections and waits until they are closed."""
        for task, writer in self._serving.items():
            task.cancel()
            await task
            with suppress(ConnectionError):
                await writer.wait_closed()

    @property
    def max_sent(self) -> int:
        return max(connection.sent for connection in self.connections)


async def never_reply(_: FakeServerConnection) -> None:
    """Never replies."""


class FakeServerControlPlane(FakePostgresControlPlane):
    def __init__(self, folder: Path) -> None:
        super().__init__(PostgresServer(folder))
        self.folder = folder
        self.access_reply = make_access(make_verifier(PASSWORD.encode(), b"0123456789abcdef", 4))

    async def wake(self, endpoint: Any) -> ComputeAddress:
        return ComputeAddress(host=str(self.folder), port=1)


@asynccontextmanager
async def open_gateway_to_fake_server() -> AsyncIterator[tuple[InProcessGateway, FakeServer]]:
    with platform.temporary_folder() as folder:
        server = FakeServer()
        listener = await asyncio.start_unix_server(server.serve, folder / ".s.PGSQL.1")
        gateway = InProcessGateway(folder, FakeServerControlPlane(folder))
        gateway.open(1)
        gateway.worker_services[0].pools.start()
        try:
            yield gateway, server
        finally:
            for wire in gateway.wire_clients:
                wire.close()
            gateway.servers[0].stop_accepting()
            await gateway.servers[0].stop(1)
            gateway.worker_services[0].pools.close()
            gateway.peers[0].close()
            await asyncio.gather(*cancel._cancel_tasks)
            await wait_until_accepted()
            listener.close()
            await server.close()


async def log_in(gateway: InProcessGateway, *, pooled: bool) -> WireClient:
    name = f"{ENDPOINT}-pooler" if pooled else ENDPOINT
    wire = await send_startup(gateway, options=f"endpoint={name}")
    await wire.authenticate()
    return wire


async def send_endless_notices(connection: FakeServerConnection) -> None:
    await connection.flood(lambda _: NOTICE)


async def send_endless_parameters(connection: FakeServerConnection) -> None:
    await connection.flood(lambda number: messages.encode_parameter_status(f"my.parameter{number}", "x" * 50))


async def send_endless_message(connection: FakeServerConnection) -> None:
    await connection.send(NOTICE[:1] + (1 << 30).to_bytes(4))
    await connection.flood(lambda _: b"x" * 100)


async def send_no_key(connection: FakeServerConnection) -> None:
    await connection.send(messages.AUTHENTICATION_OK + READY)


async def send_short_key(connection: FakeServerConnection) -> None:
    await connection.send(messages.AUTHENTICATION_OK + messages.encode_backend_key_data(1, b"123") + READY)


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize(
    "script", [send_no_key, send_short_key, send_endless_notices, send_endless_parameters, send_endless_message]
)
async def test_what_comes_before_the_session_is_bounded(script: Script, pooled: bool) -> None:
    async with open_gateway_to_fake_server() as (gateway, server):
        server.script = script
        wire = await log_in(gateway, pooled=pooled)
        error = await wire.read_error()
        await server.closed.wait()
        assert error.sqlstate == "57P03"
        assert "reply to the login does not follow the Postgres protocol" in error.message
        assert server.max_sent < backend.MAX_GREETING_BYTES + IN_FLIGHT


@pytest.mark.parametrize("pooled", [False, True])
async def test_a_server_that_never_lets_anybody_in_is_left(pooled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "GREETING_TIMEOUT_SECONDS", 0.2)
    async with open_gateway_to_fake_server() as (gateway, server):
        error = await (await log_in(gateway, pooled=pooled)).read_error()
        assert (error.sqlstate, "did not complete the login in time" in error.message) == ("57P03", True)
        await server.closed.wait()


async def reply_until_query(connection: FakeServerConnection, then: Script) -> None:
    """Behaves as Postgres until the first query."""
    await connection.send(GREETING)
    await connection.read_query()
    await then(connection)


async def open_session(gateway: InProcessGateway, server: FakeServer, then: Script) -> WireClient:
    async def script(connection: FakeServerConnection) -> None:
        await reply_until_query(connection, then)

    server.script = script
    wire = await log_in(gateway, pooled=True)
    await wire.read_until(messages.READY_FOR_QUERY)
    wire.send(b"Q", b"select 1\0")
    return wire


async def test_parameters_of_new_names_are_bounded_in_a_session() -> None:
    async with open_gateway_to_fake_server() as (gateway, server):
        wire = await open_session(gateway, server, send_endless_parameters)
        received = await wire.read_until(messages.ERROR_RESPONSE)
        await server.closed.wait()
        assert len(received) <= reported_parameters.MAX_PARAMETERS + 1
        assert server.max_sent < reported_parameters.MAX_PARAMETER_BYTES + IN_FLIGHT


async def report_setting_change(connection: FakeServerConnection, flood: Script) -> None:
    """Reports a SET command, so that the gateway queries the settings."""
    await connection.send(Message(b"C", b"SET\0").encode() + READY)
    await connection.read_query()
    await flood(connection)


async def send_endless_rows(connection: FakeServerConnection) -> None:
    row = Message(b"D", b"\0\2" + b"\0\0\0\4name" + b"\0\0\0\5value").encode()
    await connection.flood(lambda _: row)


async def send_one_huge_row(connection: FakeServerConnection) -> None:
    await connection.send(HUGE_ROW)
    await connection.flood(lambda _: b"x" * 1000)


@pytest.mark.parametrize("flood", [send_endless_rows, send_one_huge_row, send_endless_notices])
async def test_answers_to_the_gateways_own_questions_are_bounded(flood: Script) -> None:
    async with open_gateway_to_fake_server() as (gateway, server):
        wire = await open_session(gateway, server, lambda connection: report_setting_change(connection, flood))
        error = await wire.read_error()
        await server.closed.wait()
        assert error.sqlstate == "08006"
        assert server.max_sent < replies.MAX_OWN_REPLY_BYTES + IN_FLIGHT


@pytest.mark.parametrize("flood", [send_endless_notices, send_endless_parameters, send_one_huge_row])
async def test_a_server_connection_that_nobody_has_is_bounded(flood: Script) -> None:
    async def then(connection: FakeServerConnection) -> None:
        await connection.send(READY)
        await flood(connection)

    async with open_gateway_to_fake_server() as (gateway, server):
        wire = await open_session(gateway, server, then)
        with suppress(asyncio.IncompleteReadError):  # the flood may close the connection before ReadyForQuery
            await wire.read_until(messages.READY_FOR_QUERY)
        await server.closed.wait()
        assert server.max_sent < IN_FLIGHT + 512 * 1024


async def test_a_huge_row_for_a_client_goes_by_and_is_not_kept() -> None:
    megabytes = 32

    async def then(connection: FakeServerConnection) -> None:
        await connection.send(HUGE_ROW)
        for _ in range(megabytes * 16):
            await connection.send(b"x" * 65536)

    async with open_gateway_to_fake_server() as (gateway, server):
        wire = await open_session(gateway, server, then)
        for _ in range(megabytes * 16):
            await wire.reader.readexactly(65536)
        server_connection = next(iter(next(iter(gateway.worker_services[0].pools._pools_of(ENDPOINT))).servers))
        assert len(server_connection.replies._buffer) == 0
        assert len(server_connection._writer.unsent) <= 65536


@pytest.mark.parametrize("nonsense", [b"Z\0\0\0\0", b"T\0\0\0\7\0\5x", b"E\0\0\0\4", b"S\0\0\0\1"])
async def test_nonsense_ends_one_server_connection_and_nothing_else(nonsense: bytes) -> None:
    async def then(connection: FakeServerConnection) -> None:
        await connection.send(nonsense * 10)
        connection.writer.close()

    async with open_gateway_to_fake_server() as (gateway, server):
        wire = await open_session(gateway, server, then)
        await wire.reader.read()
        again = await open_session(gateway, server, never_reply)
        assert not again.reader.at_eof()


@pytest.mark.parametrize("pause", [0, 0.05])
async def test_a_server_connection_that_says_it_ends_is_closed_before_anybody_gets_it(pause: float) -> None:
    """The error arrives with the last reply, or while the connection is idle. Postgres closes it some time later."""

    async def then(connection: FakeServerConnection) -> None:
        termination = ErrorResponse(sqlstate="57P01", message="terminating connection").encode()
        await connection.send(READY if pause else READY + termination)
        await asyncio.sleep(pause)
        await connection.send(termination if pause else b"")

    async with open_gateway_to_fake_server() as (gateway, server):
        wire = await open_session(gateway, server, then)
        await wire.read_until(messages.READY_FOR_QUERY)
        async with asyncio.timeout(10):
            await server.closed.wait()
        server.closed.clear()
        server.script = lambda connection: reply_until_query(connection, lambda connection: connection.send(READY))
        wire.send(b"Q", b"select 1\0")
        await wire.read_until(messages.READY_FOR_QUERY)
        assert len(server.connections) == 2
