"""Fixtures: one platform for all API tests of this process, and a new account for each test."""

import io
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import structlog

from bough import log
from support import api_app as fronts
from support import collection
from support.api_app import ApiApp
from support.api_client import Caller, create_caller


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    collection.use_one_event_loop(items, Path(__file__).parent)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    collection.parametrize_stores(metafunc, "api_app")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def api_app(request: pytest.FixtureRequest) -> AsyncIterator[ApiApp]:
    async with fronts.open_api_app(**await collection.create_store_settings(request)) as created:
        yield created


@pytest_asyncio.fixture(loop_scope="session")
async def caller(api_app: ApiApp) -> AsyncIterator[Caller]:
    """A user with an empty account without limits."""
    created = await create_caller(api_app)
    yield created
    await created.client.aclose()


@pytest_asyncio.fixture(loop_scope="session")
async def stranger(api_app: ApiApp) -> AsyncIterator[Caller]:
    """Another user, on the plan of new accounts."""
    created = await create_caller(api_app, plan="free")
    yield created
    await created.client.aclose()


@pytest.fixture(autouse=True)
def forbid_machine_access(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    fronts.forbid_processes(monkeypatch)
    fronts.violations.clear()
    yield
    assert not fronts.violations


@pytest.fixture(autouse=True)
def log_output(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """The platform's log lines during the test, in the format that is written to disk."""
    lines = io.StringIO()
    configure = structlog.configure
    with monkeypatch.context() as during:
        during.setattr(sys, "stderr", lines)
        # Loggers that cache their configuration would keep it for all later tests.
        during.setattr(structlog, "configure", lambda **given: configure(**{**given, **_FORGETFUL}))
        log.configure("debug")
    yield lines
    structlog.reset_defaults()
    sys.stderr.write(lines.getvalue())  # shown if the test fails


_FORGETFUL = {"cache_logger_on_first_use": False}
