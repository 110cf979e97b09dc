from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from cli.program import Program, is_alive, until
from journeys.programs import install_packages
from journeys.served import RATELESS, Running, Served, sharing
from world import short_folder


@pytest.fixture
def bough() -> Iterator[Program]:
    with short_folder(0o755) as folder:
        program = Program(folder / "home")
        yield program
        program.clean_up()


@pytest.fixture(scope="session")
def lent() -> Iterator[Program]:
    """What `own` lends to one test after the other."""
    with short_folder(0o755) as folder:
        program = Program(folder / "home", RATELESS)
        yield program
        program.clean_up()


@pytest.fixture
def own(lent: Program) -> Running:
    """A platform for a test that kills, restarts or counts what is the platform's; whole when the test begins."""
    if lent.status()["state"] == "stopped":
        lent.up()
    until(lambda: lent.is_running() and all(is_alive(worker["pid"]) for worker in lent.status()["gateway_workers"]))
    return Running(lent, lent.said)


@pytest.fixture
async def alone(own: Running) -> AsyncIterator[Served]:
    """A project behind the gateway of that."""
    async with sharing(own) as made:
        yield made
        if own.bough.is_running():
            made.delete()


@pytest.fixture(scope="session")
def shared() -> Iterator[Running]:
    """A platform for all who leave it as it was; its computes come and go with their tests."""
    with short_folder(0o755) as folder:
        program = Program(folder / "home", RATELESS)
        yield Running(program, program.up())
        program.clean_up()


@pytest.fixture
async def one(shared: Running) -> AsyncIterator[Served]:
    """A project of its own behind the gateway of that."""
    async with sharing(shared) as made:
        yield made
        made.delete()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def project(shared: Running) -> AsyncIterator[Served]:
    """The same, for a whole file of tests that leave it as it was."""
    async with sharing(shared) as made:
        yield made
        made.delete()


@pytest.fixture(scope="session")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_packages(tmp_path_factory.mktemp("npm"))
