"""One platform for all tests of the API in this process, and an account of one's own for each test."""

import io
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import structlog

import world
from api import front as fronts
from api.callers import Caller, open_account
from api.front import Front
from bough import log

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A shared platform lives in one event loop, so its tests do too."""
    for item in items:
        if item.path.is_relative_to(_HERE) and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """In the long tier the whole API is tested on both back ends of the store."""
    if "front" in metafunc.fixturenames and metafunc.config.getoption("--long"):
        metafunc.parametrize("front", ["sqlite", "postgres"], indirect=True, scope="session")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def front(request: pytest.FixtureRequest) -> AsyncIterator[Front]:
    store = {}
    if getattr(request, "param", "sqlite") == "postgres":
        server: world.PostgresServer = request.getfixturevalue("postgres_server")
        store = {"store_url": await server.new_database(f"api_{uuid.uuid4().hex}")}
    async with fronts.front(**store) as made:
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
