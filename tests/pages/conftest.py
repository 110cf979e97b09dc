"""One platform and one front for all tests of the pages in this process; making another takes a second."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

import requires
import world
from pages.front import Front
from pages.served import chromium, listening

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A shared platform lives in one event loop, so its tests do too."""
    for item in items:
        if item.path.is_relative_to(_HERE) and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """In the long tier the pages are tested on both back ends of the store."""
    if "shared_platform" in metafunc.fixturenames and metafunc.config.getoption("--long"):
        metafunc.parametrize("shared_platform", ["sqlite", "postgres"], indirect=True, scope="session")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_platform(request: pytest.FixtureRequest) -> AsyncIterator[world.Platform]:
    store = {}
    if getattr(request, "param", "sqlite") == "postgres":
        server: world.PostgresServer = request.getfixturevalue("postgres_server")
        store = {"store_url": await server.new_database(f"pages_{uuid.uuid4().hex}")}
    async with world.platform(**store) as made:
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def served(shared_platform: world.Platform) -> AsyncIterator[Front]:
    async with listening(shared_platform) as made:
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with chromium(requires.require_browser()) as made:
        yield made


@pytest.fixture(scope="session")
def front(shared_platform: world.Platform) -> Front:
    """Where anybody may sign up."""
    return Front(shared_platform)
