"""Collection for folders whose tests share a platform: one event loop, and in the long tier both store back ends."""

from pathlib import Path

import pytest
import pytest_asyncio

from support.postgres import PostgresServer


def use_one_event_loop(items: list[pytest.Item], folder: Path) -> None:
    """Run all async tests of the folder in one event loop, because a platform cannot be shared between loops."""
    for item in items:
        if item.path.is_relative_to(folder) and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


def parametrize_stores(metafunc: pytest.Metafunc, fixture: str) -> None:
    if fixture in metafunc.fixturenames and metafunc.config.getoption("--long"):
        metafunc.parametrize(fixture, ["sqlite", "postgres"], indirect=True, scope="session")


async def create_store_settings(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return the settings for the store that the parameter of the fixture names."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return {}
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return {"store_url": await server.create_store_database()}
