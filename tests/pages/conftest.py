"""Fixtures: one platform and one app for all tests of the pages in this process, as starting one takes a second."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from support import collection, platform, requirements
from support.pages_app import PagesApp
from support.pages_server import launch_chromium, serve_pages


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    collection.use_one_event_loop(items, Path(__file__).parent)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    collection.parametrize_stores(metafunc, "shared_platform")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_platform(request: pytest.FixtureRequest) -> AsyncIterator[platform.Platform]:
    async with platform.open_platform(**await collection.create_store_settings(request)) as created:
        yield created


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def pages_server(shared_platform: platform.Platform) -> AsyncIterator[PagesApp]:
    async with serve_pages(shared_platform) as created:
        yield created


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with launch_chromium(requirements.require_browser()) as created:
        yield created


@pytest.fixture(scope="session")
def pages_app(shared_platform: platform.Platform) -> PagesApp:
    """The pages with open sign-up."""
    return PagesApp(shared_platform)
