"""Fixtures for contract tests: the store on each back end, a folder for each volume driver, and an engine on each."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bough.store.store import Store
from contracts.driver_workspace import driver_folder, workspace
from contracts.engines import engine, settings, spec
from support.postgres import PostgresServer
from support.stores import BACKENDS, open_store

# Contracts that do not depend on the driver. The everyday tier tests them on one.
_ON_ONE_DRIVER = frozenset(
    {"test_engine_changes.py", "test_engine_computes.py", "test_engine_inspection.py", "test_engine_sampling.py"}
)

__all__ = ["driver_folder", "engine", "settings", "spec", "store", "workspace"]


@pytest.fixture(params=BACKENDS)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer
) -> AsyncIterator[Store]:
    async with open_store(request.param, tmp_path, postgres_server) as opened:
        yield opened


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if item.path.name in _ON_ONE_DRIVER and parameters.get("settings") == "btrfs+wal":
            item.add_marker(pytest.mark.long)
