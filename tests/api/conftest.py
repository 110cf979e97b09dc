"""One platform for all tests of the API in this process, and an account of one's own for each test."""

import io
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import structlog

import one_platform
from api import front as fronts
from api.callers import Caller, open_account
from api.front import Front
from bough import log


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    one_platform.in_one_loop(items, Path(__file__).parent)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    one_platform.on_both_stores(metafunc, "front")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def front(request: pytest.FixtureRequest) -> AsyncIterator[Front]:
    async with fronts.front(**await one_platform.store_settings(request)) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def caller(front: Front) -> AsyncIterator[Caller]:
    """Someone with an empty account without limits."""
    made = await open_account(front)
    yield made
    await made.client.aclose()


@pytest_asyncio.fixture(loop_scope="session")
async def stranger(front: Front) -> AsyncIterator[Caller]:
    """Someone else, on the plan of new accounts."""
    made = await open_account(front, plan="free")
    yield made
    await made.client.aclose()


@pytest.fixture(autouse=True)
def edges_cannot_reach_the_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    fronts.forbid_processes(monkeypatch)
    fronts.offences.clear()
    yield
    assert not fronts.offences


@pytest.fixture(autouse=True)
def logbook(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What the platform logs during the test, in the form that is written to disk."""
    lines = io.StringIO()
    configure = structlog.configure
    with monkeypatch.context() as during:
        during.setattr(sys, "stderr", lines)
        # Loggers that keep their first setup would keep it for all tests after this one.
        during.setattr(structlog, "configure", lambda **given: configure(**{**given, **_FORGETFUL}))
        log.configure("debug")
    yield lines
    structlog.reset_defaults()
    sys.stderr.write(lines.getvalue())  # shown when the test fails


_FORGETFUL = {"cache_logger_on_first_use": False}
