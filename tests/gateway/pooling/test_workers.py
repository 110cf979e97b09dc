"""Two workers at one endpoint: they share its budget, and nobody starves because another got there first."""

from collections.abc import AsyncIterator

import pytest

import world
from gateway.pooling import pooler as poolers
from gateway.pooling.phrases import query
from gateway.pooling.pooler import Pooler
from gateway.pooling.speaking import Speaker

SERVERS = 4


@pytest.fixture
async def pooler(postgres_server: world.PostgresServer) -> AsyncIterator[Pooler]:
    async with poolers.opened(postgres_server, workers=2) as opened:
        opened.set(servers=SERVERS, servers_per_pool=SERVERS)
        yield opened


async def clients_by_worker(pooler: Pooler, count: int) -> list[list[Speaker]]:
    """So many of each: workers take them in turn."""
    found: list[list[Speaker]] = [[], []]
    before = [0, 0]
    while min(map(len, found)) < count:
        client = await pooler.client()
        now = [rooms.activity.connections for rooms in pooler.doorway.rooms]
        found[0 if now[0] > before[0] else 1].append(client)
        before = now
    return found


async def test_clients_of_both_are_served_though_one_worker_had_all_there_is(pooler: Pooler) -> None:
    ours, theirs = await clients_by_worker(pooler, SERVERS)
    for client in ours[:SERVERS]:
        await client.does("begin", "select 1")
    for client in theirs[:SERVERS]:
        client.say(query("select 'served'"))
    assert len(await pooler.members()) == SERVERS
    for client in ours[:SERVERS]:
        await client.does("commit")
    for client in theirs[:SERVERS]:
        assert (await client.answer()).value == "served"
        assert len(await pooler.members()) <= SERVERS


async def rounds(everybody: list[Speaker], count: int) -> None:
    for _ in range(count):
        for client in everybody:
            client.say(query("select pg_sleep(0.002)"))
        for client in everybody:
            assert not (await client.answer()).troubles


async def test_both_go_on_when_both_want_more_than_there_is(pooler: Pooler) -> None:
    """And come to rest: none is closed over and over only to be opened again."""
    ours, theirs = await clients_by_worker(pooler, SERVERS)
    members: set[int] = set()
    for _ in range(20):
        before = members
        await rounds([*ours, *theirs], 60)  # longer than it takes them to look twice who has how many
        members = set(await pooler.members())
        assert len(members) <= SERVERS
        if members == before:
            return
    pytest.fail(f"they never keep the members that they have; the last were {before}, then {members}")
