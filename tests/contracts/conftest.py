"""The store, once on each back end; and the places of volume drivers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import stores
from bough.store.store import Store
from contracts.shelf import module_place, shelf
from world import PostgresServer

__all__ = ["module_place", "shelf", "store"]


@pytest.fixture(params=stores.BACK_ENDS)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer
) -> AsyncIterator[Store]:
    async with stores.opened(request.param, tmp_path, postgres_server) as made:
        yield made
