"""Fixtures: one platform for all tests of the instant API in this process, which runs its operations."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from instant.instant_app import InstantApp
from support import collection, platform


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    collection.use_one_event_loop(items, Path(__file__).parent)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    collection.parametrize_stores(metafunc, "shared_platform")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_platform(request: pytest.FixtureRequest) -> AsyncIterator[platform.Platform]:
    async with (
        platform.open_platform(**await collection.create_store_settings(request)) as created,
        created.background_runner(),
    ):
        yield created


@pytest.fixture(scope="session")
def instant_app(shared_platform: platform.Platform) -> InstantApp:
    """The instant API without rate limits."""
    return InstantApp(shared_platform)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def instant_database(instant_app: InstantApp) -> dict[str, Any]:
    """A database shared by tests that do not change it."""
    return await instant_app.create()
