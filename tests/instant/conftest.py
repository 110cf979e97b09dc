"""One platform for all tests of the instant API in this process; its operations run by themselves."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import one_platform
import world
from instant.front import Front


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    one_platform.in_one_loop(items, Path(__file__).parent)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    one_platform.on_both_stores(metafunc, "shared_platform")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_platform(request: pytest.FixtureRequest) -> AsyncIterator[world.Platform]:
    async with world.platform(**await one_platform.store_settings(request)) as made, made.working():
        yield made


@pytest.fixture(scope="session")
def front(shared_platform: world.Platform) -> Front:
    """Where nobody is held up."""
    return Front(shared_platform)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def made(front: Front) -> dict[str, Any]:
    """A database for all who leave it as it was."""
    return await front.create()
