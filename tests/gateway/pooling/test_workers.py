"""Two workers share the budget of an endpoint, and neither starves."""

from collections.abc import AsyncIterator

import pytest

from support import pooler as poolers
from support.pooler import Pooler
from support.postgres import PostgresServer
from support.protocol_client import ProtocolClient
from support.protocol_messages import query

SERVERS = 4


@pytest.fixture
async def pooler(postgres_server: PostgresServer) -> AsyncIterator[Pooler]:
    async with poolers.open_pooler(postgres_server, workers=2) as opened:
        opened.configure(servers=SERVERS, servers_per_pool=SERVERS)
        yield opened


async def clients_by_worker(pooler: Pooler, count: int) -> list[list[ProtocolClient]]:
    """So many clients of each worker: the workers accept them in turn."""
    found: list[list[ProtocolClient]] = [[], []]
    before = [0, 0]
    while min(map(len, found)) < count:
        client = await pooler.connect()
        now = [services.activity.connections for services in pooler.gateway.worker_services]
        found[0 if now[0] > before[0] else 1].append(client)
        before = now
    return found


async def test_clients_of_both_are_served_though_one_worker_had_all_there_is(pooler: Pooler) -> None:
    ours, theirs = await clients_by_worker(pooler, SERVERS)
    for client in ours[:SERVERS]:
        await client.execute("begin", "select 1")
    for client in theirs[:SERVERS]:
        client.send(query("select 'served'"))
    assert len(await pooler.list_server_pids()) == SERVERS
    for client in ours[:SERVERS]:
        await client.execute("commit")
    for client in theirs[:SERVERS]:
        assert (await client.read_reply()).value == "served"
        assert len(await pooler.list_server_pids()) <= SERVERS


async def run_rounds(clients: list[ProtocolClient], count: int) -> None:
    for _ in range(count):
        for client in clients:
            client.send(query("select pg_sleep(0.002)"))
        for client in clients:
            assert not (await client.read_reply()).errors


async def test_both_go_on_when_both_want_more_than_there_is(pooler: Pooler) -> None:
    """It becomes stable: no server connection is closed again and again only to be reopened."""
    ours, theirs = await clients_by_worker(pooler, SERVERS)
    pids: set[int] = set()
    for _ in range(20):
        before = pids
        await run_rounds([*ours, *theirs], 60)  # longer than two sharing intervals
        pids = set(await pooler.list_server_pids())
        assert len(pids) <= SERVERS
        if pids == before:
            return
    pytest.fail(f"the server connections never become stable; the last were {before}, then {pids}")
