"""Fixtures: the contract, an API in this process, and platforms that listen on a port."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from compat import server_thread
from compat.server_thread import ServerThread
from support import requirements
from support.api_app import ApiApp, open_api_app
from support.api_client import Caller, create_caller
from support.contract import Contract, load_contract

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs the tests of a shared platform in one event loop."""
    for item in items:
        if item.path.is_relative_to(_HERE) and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.fixture(scope="session")
def contract() -> Contract:
    requirements.require_contract()
    loaded = load_contract()
    assert loaded is not None
    return loaded


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def api_app() -> AsyncIterator[ApiApp]:
    async with open_api_app() as created:
        yield created


@pytest_asyncio.fixture(loop_scope="session")
async def caller(api_app: ApiApp) -> AsyncIterator[Caller]:
    """A user with an empty account without limits."""
    created = await create_caller(api_app)
    yield created
    await created.client.aclose()


@pytest.fixture(scope="session")
def _platform_server() -> Iterator[ServerThread]:
    with server_thread.run_server(server_thread.serve_platform, hold_seconds=20) as created:
        yield created


@pytest.fixture(scope="session")
def _api_server() -> Iterator[ServerThread]:
    with server_thread.run_server(server_thread.serve_api_only, hold_seconds=0) as created:
        yield created


@pytest.fixture
def platform_server(_platform_server: ServerThread) -> Iterator[ServerThread]:
    """The platform as `bough up` runs it, on a port; at the end, all responses are checked against the contract."""
    yield from _check_violations(_platform_server)


@pytest.fixture
def api_server(_api_server: ServerThread) -> Iterator[ServerThread]:
    """The API on a port, without running operations."""
    yield from _check_violations(_api_server)


def _check_violations(server: ServerThread) -> Iterator[ServerThread]:
    server.contract_checker.violations.clear()
    yield server
    assert server.contract_checker.violations == []
