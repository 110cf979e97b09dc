from collections.abc import AsyncIterator

import pytest

import world
from gateway import doorway as doorways
from gateway.doorway import Doorway


@pytest.fixture
async def doorway(postgres_server: world.PostgresServer) -> AsyncIterator[Doorway]:
    await (await postgres_server._connect()).close()
    async with doorways.doorway(postgres_server) as opened:
        yield opened
