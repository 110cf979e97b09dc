"""One platform and one front for all tests of the pages in this process; making another takes a second."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

import one_platform
import requires
import world
from pages.front import Front
from pages.served import chromium, listening


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    one_platform.in_one_loop(items, Path(__file__).parent)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    one_platform.on_both_stores(metafunc, "shared_platform")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_platform(request: pytest.FixtureRequest) -> AsyncIterator[world.Platform]:
    async with world.platform(**await one_platform.store_settings(request)) as made:
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
