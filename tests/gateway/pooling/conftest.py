from collections.abc import AsyncIterator

import pytest

import world
from gateway.pooling import pooler as poolers
from gateway.pooling.pooler import Pooler
from gateway.pooling.speaking import Speaker


@pytest.fixture
async def pooler(postgres_server: world.PostgresServer) -> AsyncIterator[Pooler]:
    async with poolers.opened(postgres_server) as opened:
        yield opened


@pytest.fixture
def one_member(pooler: Pooler) -> Pooler:
    """All clients share a single server connection, so whatever one leaves there is in the next one's way."""
    pooler.set(servers=1, servers_per_pool=1)
    return pooler


@pytest.fixture
async def three(one_member: Pooler) -> list[Speaker]:
    """Clients of the one member, and the table `things` that some tests write to."""
    clients = await one_member.clients(3)
    await clients[0].does("create table things (id integer)")
    return clients
