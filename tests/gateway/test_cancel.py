"""Cancel keys: the gateway's own, with the worker's number, and valid on every worker."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bough.gateway import relay
from bough.gateway.wire import messages
from support import gateway as gateways
from support.gateway import InProcessGateway, WireClient
from support.postgres import PostgresServer

# Postgres sends the notice at once. Before the query runs, a request to cancel it has no effect.
SLEEP = "do $$ begin raise notice 'begun'; end $$; select pg_sleep(600)"


@pytest.fixture
async def two_workers(postgres_server: PostgresServer) -> AsyncIterator[InProcessGateway]:
    async with gateways.open_gateway(postgres_server, workers=2) as opened:
        yield opened


async def start_sleeping_query(opened_gateway: InProcessGateway, minor: int) -> tuple[WireClient, bytes]:
    """Return a client with a running query, and its cancel key."""
    wire = await opened_gateway.open_wire_client()
    await wire.start_tls(alpn="postgresql")
    wire.send_startup(minor)
    await wire.authenticate()
    key = next(m.body for m in await wire.read_until(messages.READY_FOR_QUERY) if m.type == messages.BACKEND_KEY_DATA)
    wire.send(b"Q", f"{SLEEP}\0".encode())
    await wire.read_until(messages.NOTICE_RESPONSE)
    return wire, key


def encode_request(key: bytes) -> bytes:
    return (len(key) + 8).to_bytes(4) + (80877102).to_bytes(4) + key


async def cancel(opened_gateway: InProcessGateway, key: bytes, *, encrypted: bool) -> None:
    wire = await opened_gateway.open_wire_client()
    if encrypted:
        await wire.start_tls(alpn="postgresql")
    wire.writer.write(encode_request(key))
    assert await wire.reader.read() == b""
    wire.close()


@pytest.mark.parametrize("minor", [0, 2])
@pytest.mark.parametrize("encrypted", [True, False])
async def test_a_query_is_cancelled(gateway: InProcessGateway, minor: int, encrypted: bool) -> None:
    wire, key = await start_sleeping_query(gateway, minor)
    await cancel(gateway, key, encrypted=encrypted)
    error = (await wire.read_until(messages.ERROR_RESPONSE))[-1]
    assert messages.parse_error_response(error.body).sqlstate == "57014"
    assert (await wire.read_until(messages.READY_FOR_QUERY))[-1].body == b"I"
    wire.close()


async def test_any_worker_takes_the_request(two_workers: InProcessGateway) -> None:
    """The kernel spreads connections over both workers, so many attempts reach both."""
    numbers = set()
    for _ in range(12):
        wire, key = await start_sleeping_query(two_workers, 0)
        numbers.add(key[0])
        await cancel(two_workers, key, encrypted=False)
        error = (await wire.read_until(messages.ERROR_RESPONSE))[-1]
        assert messages.parse_error_response(error.body).sqlstate == "57014"
        wire.close()
    assert numbers == {0, 1}


async def test_a_wrong_key_cancels_nothing(gateway: InProcessGateway) -> None:
    wire, key = await start_sleeping_query(gateway, 0)
    for wrong in (key[:4] + b"\0\0\0\0", b"\x7f\0\0\0" + key[4:], key + b"x", b"\0\0\0\0" + b"k" * 200):
        await cancel(gateway, wrong, encrypted=False)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(wire.read_until(messages.ERROR_RESPONSE), 0.3)
    wire.close()


async def test_numbers_of_workers_that_ended_are_free_again(postgres_server: PostgresServer) -> None:
    async with gateways.open_gateway(postgres_server, workers=2) as opened:
        assert [all_peers.number for all_peers in opened.peers] == [0, 1]
        folder = opened.folder
        assert len(list(folder.glob("worker-*.sock"))) == 2
    async with gateways.open_gateway(postgres_server) as opened:
        assert [all_peers.number for all_peers in opened.peers] == [0]


async def test_the_query_of_a_client_that_vanished_is_cancelled_at_once(
    gateway: InProcessGateway, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel closes the connection of a killed process, without a TLS close_notify."""
    monkeypatch.setattr(relay, "HALF_CLOSED_SECONDS", 3600)
    wire, _ = await start_sleeping_query(gateway, 0)
    wire.writer.transport.abort()
    session = await postgres_server.connect()
    active_query = "select count(*) from pg_stat_activity where query = $1 and state = 'active'"
    while await session.fetchval(active_query, SLEEP):  # noqa: ASYNC110  another process ends it
        await asyncio.sleep(0.05)
    await session.close()
