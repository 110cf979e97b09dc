from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from journeys.client_programs import install_packages
from journeys.served_project import NO_RATE_LIMIT, RunningPlatform, ServedProject, create_project
from support.platform import temporary_folder
from support.program import Program, is_alive, wait_until


@pytest.fixture
def bough() -> Iterator[Program]:
    with temporary_folder(0o755) as folder:
        program = Program(folder / "home")
        yield program
        program.clean_up()


@pytest.fixture(scope="session")
def reusable_program() -> Iterator[Program]:
    """What `own` lends to one test after the other."""
    with temporary_folder(0o755) as folder:
        program = Program(folder / "home", NO_RATE_LIMIT)
        yield program
        program.clean_up()


@pytest.fixture
def own_platform(reusable_program: Program) -> RunningPlatform:
    """A platform for a test that kills, restarts or counts what is the platform's; whole when the test begins."""
    if reusable_program.status()["state"] == "stopped":
        reusable_program.up()
    wait_until(
        lambda: (
            reusable_program.is_running()
            and all(is_alive(worker["pid"]) for worker in reusable_program.status()["gateway_workers"])
        )
    )
    return RunningPlatform(reusable_program, reusable_program.up_output)


@pytest.fixture
async def project_on_own_platform(own_platform: RunningPlatform) -> AsyncIterator[ServedProject]:
    """A project behind the gateway of that."""
    async with create_project(own_platform) as made:
        yield made
        if own_platform.bough.is_running():
            made.delete()


@pytest.fixture(scope="session")
def running_platform() -> Iterator[RunningPlatform]:
    """A platform for all who leave it as it was; its computes come and go with their tests."""
    with temporary_folder(0o755) as folder:
        program = Program(folder / "home", NO_RATE_LIMIT)
        yield RunningPlatform(program, program.up())
        program.clean_up()


@pytest.fixture
async def served_project(running_platform: RunningPlatform) -> AsyncIterator[ServedProject]:
    """A project of its own behind the gateway of that."""
    async with create_project(running_platform) as made:
        yield made
        made.delete()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_project(running_platform: RunningPlatform) -> AsyncIterator[ServedProject]:
    """The same, for a whole file of tests that leave it as it was."""
    async with create_project(running_platform) as made:
        yield made
        made.delete()


@pytest.fixture(scope="session")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_packages(tmp_path_factory.mktemp("npm"))
