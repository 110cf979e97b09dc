"""A program with a home of its own, cleaned up after the test; and one that runs, for all who only look."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.platform import temporary_folder
from support.program import ONE_WORKER, TWO_WORKERS, Program


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder that every user may pass, as computes must; pytest's own are closed."""
    with temporary_folder(0o755) as path:
        yield path


@pytest.fixture
def bough(folder: Path) -> Iterator[Program]:
    program = Program(folder / "home", ONE_WORKER)
    yield program
    program.clean_up()


@pytest.fixture(scope="session")
def shared_bough() -> Iterator[Program]:
    """A platform that runs, for tests that change nothing about it; instant databases come and go."""
    with temporary_folder(0o755) as folder:
        program = Program(folder / "home", TWO_WORKERS)
        try:
            program.up()
            yield program
        finally:
            program.clean_up()
