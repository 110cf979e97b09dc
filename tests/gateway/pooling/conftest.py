from collections.abc import AsyncIterator

import pytest

from support import pooler as poolers
from support.pooler import Pooler
from support.postgres import PostgresServer
from support.protocol_client import ProtocolClient


@pytest.fixture
async def pooler(postgres_server: PostgresServer) -> AsyncIterator[Pooler]:
    async with poolers.open_pooler(postgres_server) as opened:
        yield opened


@pytest.fixture
def one_server_connection(pooler: Pooler) -> Pooler:
    """All clients share one server connection, so each finds what the previous one left there."""
    pooler.configure(servers=1, servers_per_pool=1)
    return pooler


@pytest.fixture
async def three_clients(one_server_connection: Pooler) -> list[ProtocolClient]:
    """Three clients of one server connection, and the table `things` for tests that write."""
    clients = await one_server_connection.connect_many(3)
    await clients[0].execute("create table things (id integer)")
    return clients
