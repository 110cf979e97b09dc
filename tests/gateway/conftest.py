from collections.abc import AsyncIterator

import pytest

from support import gateway as gateways
from support.gateway import InProcessGateway
from support.postgres import PostgresServer


@pytest.fixture
async def gateway(postgres_server: PostgresServer) -> AsyncIterator[InProcessGateway]:
    await (await postgres_server.connect()).close()
    async with gateways.open_gateway(postgres_server) as opened:
        yield opened
