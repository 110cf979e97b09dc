from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from cli.program import Program
from journeys.programs import install_packages
from journeys.served import Served, serving
from world import short_folder


@pytest.fixture
def bough() -> Iterator[Program]:
    with short_folder(0o755) as folder:
        program = Program(folder / "home")
        yield program
        program.clean_up()


@pytest.fixture
async def one(bough: Program) -> AsyncIterator[Served]:
    """A project behind a running gateway."""
    async with serving(bough) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def project() -> AsyncIterator[Served]:
    """The same, for a whole file of tests that leave it as it was."""
    with short_folder(0o755) as folder:
        program = Program(folder / "home")
        async with serving(program) as made:
            yield made
        program.clean_up()


@pytest.fixture(scope="session")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_packages(tmp_path_factory.mktemp("npm"))
