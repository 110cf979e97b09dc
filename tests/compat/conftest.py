"""The contract, a front to ask in this process, and platforms that really listen."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

import requires
from api import front as fronts
from api.callers import Caller, open_account
from api.front import Front
from compat import described, listener
from compat.contract import Contract, published
from compat.listener import Listener

_HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    described.set_examples(300 if config.getoption("--long") else 4)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A shared platform lives in one event loop, so its tests do too."""
    for item in items:
        if item.path.is_relative_to(_HERE) and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.fixture(scope="session")
def contract() -> Contract:
    requires.require_contract()
    found = published()
    assert found is not None
    return found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def front() -> AsyncIterator[Front]:
    async with fronts.front() as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def caller(front: Front) -> AsyncIterator[Caller]:
    """Someone with an empty account without limits."""
    made = await open_account(front)
    yield made
    await made.client.aclose()


@pytest.fixture(scope="session")
def _whole() -> Iterator[Listener]:
    with listener.listening(listener.whole, hold_seconds=20) as made:
        yield made


@pytest.fixture(scope="session")
def _front_only() -> Iterator[Listener]:
    with listener.listening(listener.front_only, hold_seconds=0) as made:
        yield made


@pytest.fixture
def listening_platform(_whole: Listener) -> Iterator[Listener]:
    """The platform as `bough up` runs it, on a port; at the end every answer was as the contract says."""
    yield from _checked(_whole)


@pytest.fixture
def listening_front(_front_only: Listener) -> Iterator[Listener]:
    """The API on a port, with nobody behind it who works."""
    yield from _checked(_front_only)


def _checked(made: Listener) -> Iterator[Listener]:
    made.watch.faults.clear()
    yield made
    assert made.watch.faults == []
