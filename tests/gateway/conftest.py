from collections.abc import AsyncIterator

import pytest

from support import gateway as doorways
from support import platform
from support.gateway import InProcessGateway


@pytest.fixture
async def gateway(postgres_server: platform.PostgresServer) -> AsyncIterator[InProcessGateway]:
    await (await postgres_server.connect()).close()
    async with doorways.open_gateway(postgres_server) as opened:
        yield opened
