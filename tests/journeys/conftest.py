"""Platforms and projects that the journeys share."""

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
    """The program behind `own_platform`, which one test after the other uses."""
    with temporary_folder(0o755) as folder:
        program = Program(folder / "home", NO_RATE_LIMIT)
        yield program
        program.clean_up()


@pytest.fixture
def own_platform(reusable_program: Program) -> RunningPlatform:
    """A platform, with all its processes, for tests that kill or restart processes or count resources."""
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
    """A new project on `own_platform`."""
    async with create_project(own_platform) as project:
        yield project
        if own_platform.bough.is_running():
            project.delete()


@pytest.fixture(scope="session")
def running_platform() -> Iterator[RunningPlatform]:
    """A platform for tests that leave it unchanged. Each test deletes its own computes."""
    with temporary_folder(0o755) as folder:
        program = Program(folder / "home", NO_RATE_LIMIT)
        yield RunningPlatform(program, program.up())
        program.clean_up()


@pytest.fixture
async def served_project(running_platform: RunningPlatform) -> AsyncIterator[ServedProject]:
    """A new project on `running_platform`."""
    async with create_project(running_platform) as project:
        yield project
        project.delete()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_project(running_platform: RunningPlatform) -> AsyncIterator[ServedProject]:
    """A project on `running_platform` for all tests of a file, which leave it unchanged."""
    async with create_project(running_platform) as project:
        yield project
        project.delete()


@pytest.fixture(scope="session")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the npm packages that the client programs import."""
    return install_packages(tmp_path_factory.mktemp("npm"))
