"""The store, once on each back end; the places of volume drivers; and an engine on each of them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import stores
from bough.store.store import Store
from contracts.engines import engine, settings, spec
from contracts.shelf import module_place, shelf
from world import PostgresServer

__all__ = ["engine", "module_place", "settings", "shelf", "spec", "store"]


@pytest.fixture(params=stores.BACK_ENDS)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer
) -> AsyncIterator[Store]:
    async with stores.opened(request.param, tmp_path, postgres_server) as made:
        yield made
