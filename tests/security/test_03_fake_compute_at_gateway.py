"""A server that somebody put in the place of a compute's cannot fill a gateway worker."""

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
from support import gateway as doorways
from support import platform
from support.control_plane import make_access
from support.gateway import ENDPOINT, PASSWORD, InProcessGateway, WireClient
from support.postgres import PostgresServer
from support.scram_client import make_verifier

ENDLESS = 64 * 1024 * 1024  # bytes that a test would send before it gives up
IN_FLIGHT = 4 * 1024 * 1024  # bytes that the kernel may hold between two sockets
NOTICE = Message(messages.NOTICE_RESPONSE, b"SNOTICE\0MSo it goes on.\0\0").encode()
READY = messages.READY_FOR_QUERY_HEADER + b"I"
KEY = messages.encode_backend_key_data(1, b"1234")
GREETING = messages.AUTHENTICATION_OK + messages.encode_parameter_status("server_version", "17") + KEY + READY
CANCEL = messages.encode_cancel_request(1, b"1234")[4:8]  # in the place of a version
HUGE_ROW = b"D" + (1 << 30).to_bytes(4)

Play = Callable[["Fake"], Awaitable[None]]


class Fake:
    """One connection to the fake server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.sent = 0

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        self.sent += len(data)
        await self.writer.drain()

    async def flood(self, piece: Callable[[int], bytes]) -> None:
        """Until the gateway closes, or takes more than it should."""
        number = 0
        while self.sent < ENDLESS:
            batch = b"".join(piece(number + each) for each in range(100))
            number += 100
            await self.send(batch)

    async def startup(self) -> bytes:
        length = int.from_bytes(await self.reader.readexactly(4))
        return await self.reader.readexactly(length - 4)

    async def query(self) -> bytes:
        head = await self.reader.readexactly(5)
        return await self.reader.readexactly(int.from_bytes(head[1:]) - 4)


class Server:
    def __init__(self) -> None:
        self.play: Play = nothing
        self.fakes: list[Fake] = []
        self.over = asyncio.Event()
        self._serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fake = Fake(reader, writer)
        self.fakes.append(fake)
        this = asyncio.current_task()
        assert this is not None
        self._serving[this] = writer
        try:
            if (await fake.startup())[:4] != CANCEL:
                await self.play(fake)
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:  # the streams of asyncio would log it
            pass
        finally:
            self.over.set()
            writer.close()

    async def close(self) -> None:
        """No connection is left to the event loop."""
        for task, writer in self._serving.items():
            task.cancel()
            await task
            with suppress(ConnectionError):
                await writer.wait_closed()

    @property
    def taken(self) -> int:
        return max(fake.sent for fake in self.fakes)


async def nothing(_: Fake) -> None:
    """Says nothing, for ever."""


class FakePlane(doorways.FakePostgresControlPlane):
    def __init__(self, folder: Path) -> None:
        super().__init__(PostgresServer(folder))
        self.folder = folder
        self.access_reply = make_access(make_verifier(PASSWORD.encode(), b"0123456789abcdef", 4))

    async def wake(self, endpoint: Any) -> ComputeAddress:
        return ComputeAddress(host=str(self.folder), port=1)


@asynccontextmanager
async def faked() -> AsyncIterator[tuple[InProcessGateway, Server]]:
    with platform.temporary_folder() as folder:
        server = Server()
        listener = await asyncio.start_unix_server(server.serve, folder / ".s.PGSQL.1")
        way = InProcessGateway(folder, FakePlane(folder))
        way.open(1)
        way.worker_services[0].pools.start()
        try:
            yield way, server
        finally:
            for wire in way.wire_clients:
                wire.close()
            way.servers[0].stop_accepting()
            await way.servers[0].stop(1)
            way.worker_services[0].pools.close()
            way.peers[0].close()
            await asyncio.gather(*cancel._cancel_tasks)
            await wait_until_accepted()
            listener.close()
            await server.close()


async def entered(way: InProcessGateway, *, pooled: bool) -> WireClient:
    name = f"{ENDPOINT}-pooler" if pooled else ENDPOINT
    wire = await send_startup(way, options=f"endpoint={name}")
    await wire.authenticate()
    return wire


async def endless_notices(fake: Fake) -> None:
    await fake.flood(lambda _: NOTICE)


async def endless_parameters(fake: Fake) -> None:
    await fake.flood(lambda number: messages.encode_parameter_status(f"my.parameter{number}", "x" * 50))


async def endless_message(fake: Fake) -> None:
    await fake.send(NOTICE[:1] + (1 << 30).to_bytes(4))
    await fake.flood(lambda _: b"x" * 100)


async def no_key(fake: Fake) -> None:
    await fake.send(messages.AUTHENTICATION_OK + READY)


async def short_key(fake: Fake) -> None:
    await fake.send(messages.AUTHENTICATION_OK + messages.encode_backend_key_data(1, b"123") + READY)


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("play", [no_key, short_key, endless_notices, endless_parameters, endless_message])
async def test_what_comes_before_the_session_is_bounded(play: Play, pooled: bool) -> None:
    async with faked() as (way, server):
        server.play = play
        wire = await entered(way, pooled=pooled)
        trouble = await wire.read_error()
        await server.over.wait()
        assert trouble.sqlstate == "57P03"
        assert "did not answer the login as Postgres does" in trouble.message
        assert server.taken < backend.MAX_GREETING_BYTES + IN_FLIGHT


@pytest.mark.parametrize("pooled", [False, True])
async def test_a_server_that_never_lets_anybody_in_is_left(pooled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "GREETING_TIMEOUT_SECONDS", 0.2)
    async with faked() as (way, server):
        trouble = await (await entered(way, pooled=pooled)).read_error()
        assert (trouble.sqlstate, "did not complete the login in time" in trouble.message) == ("57P03", True)
        await server.over.wait()


async def answered(fake: Fake, then: Play) -> None:
    """As Postgres, up to the first query."""
    await fake.send(GREETING)
    await fake.query()
    await then(fake)


async def session(way: InProcessGateway, server: Server, then: Play) -> WireClient:
    async def play(fake: Fake) -> None:
        await answered(fake, then)

    server.play = play
    wire = await entered(way, pooled=True)
    await wire.read_until(messages.READY_FOR_QUERY)
    wire.send(b"Q", b"select 1\0")
    return wire


async def test_parameters_of_new_names_are_bounded_in_a_session() -> None:
    async with faked() as (way, server):
        wire = await session(way, server, endless_parameters)
        heard = await wire.read_until(messages.ERROR_RESPONSE)
        await server.over.wait()
        assert len(heard) <= reported_parameters.MAX_PARAMETERS + 1
        assert server.taken < reported_parameters.MAX_PARAMETER_BYTES + IN_FLIGHT


async def touched(fake: Fake, flood: Play) -> None:
    """A setting is said to have changed, so the gateway asks which it is."""
    await fake.send(Message(b"C", b"SET\0").encode() + READY)
    await fake.query()
    await flood(fake)


async def endless_rows(fake: Fake) -> None:
    row = Message(b"D", b"\0\2" + b"\0\0\0\4name" + b"\0\0\0\5value").encode()
    await fake.flood(lambda _: row)


async def one_huge_row(fake: Fake) -> None:
    await fake.send(HUGE_ROW)
    await fake.flood(lambda _: b"x" * 1000)


@pytest.mark.parametrize("flood", [endless_rows, one_huge_row, endless_notices])
async def test_answers_to_the_gateways_own_questions_are_bounded(flood: Play) -> None:
    async with faked() as (way, server):
        wire = await session(way, server, lambda fake: touched(fake, flood))
        trouble = await wire.read_error()
        await server.over.wait()
        assert trouble.sqlstate == "08006"
        assert server.taken < replies.MAX_OWN_REPLY_BYTES + IN_FLIGHT


@pytest.mark.parametrize("flood", [endless_notices, endless_parameters, one_huge_row])
async def test_a_server_connection_that_nobody_has_is_bounded(flood: Play) -> None:
    async def then(fake: Fake) -> None:
        await fake.send(READY)
        await flood(fake)

    async with faked() as (way, server):
        wire = await session(way, server, then)
        with suppress(asyncio.IncompleteReadError):  # the flood may have come before the client was told
            await wire.read_until(messages.READY_FOR_QUERY)
        await server.over.wait()
        assert server.taken < IN_FLIGHT + 512 * 1024


async def test_a_huge_row_for_a_client_goes_by_and_is_not_kept() -> None:
    megabytes = 32

    async def then(fake: Fake) -> None:
        await fake.send(HUGE_ROW)
        for _ in range(megabytes * 16):
            await fake.send(b"x" * 65536)

    async with faked() as (way, server):
        wire = await session(way, server, then)
        for _ in range(megabytes * 16):
            await wire.reader.readexactly(65536)
        member = next(iter(next(iter(way.worker_services[0].pools._pools_of(ENDPOINT))).servers))
        assert len(member.replies._buffer) == 0
        assert len(member._writer.unsent) <= 65536


@pytest.mark.parametrize("nonsense", [b"Z\0\0\0\0", b"T\0\0\0\7\0\5x", b"E\0\0\0\4", b"S\0\0\0\1"])
async def test_nonsense_ends_one_server_connection_and_nothing_else(nonsense: bytes) -> None:
    async def then(fake: Fake) -> None:
        await fake.send(nonsense * 10)
        fake.writer.close()

    async with faked() as (way, server):
        wire = await session(way, server, then)
        await wire.reader.read()
        again = await session(way, server, nothing)
        assert not again.reader.at_eof()


@pytest.mark.parametrize("pause", [0, 0.05])
async def test_a_server_connection_that_says_it_ends_is_closed_before_anybody_gets_it(pause: float) -> None:
    """With the last answer, or when nobody has it. Postgres closes it some time later."""

    async def then(fake: Fake) -> None:
        ends = ErrorResponse(sqlstate="57P01", message="terminating connection").encode()
        await fake.send(READY if pause else READY + ends)
        await asyncio.sleep(pause)
        await fake.send(ends if pause else b"")

    async with faked() as (way, server):
        wire = await session(way, server, then)
        await wire.read_until(messages.READY_FOR_QUERY)
        async with asyncio.timeout(10):
            await server.over.wait()
        server.over.clear()
        server.play = lambda fake: answered(fake, lambda fake: fake.send(READY))
        wire.send(b"Q", b"select 1\0")
        await wire.read_until(messages.READY_FOR_QUERY)
        assert len(server.fakes) == 2
