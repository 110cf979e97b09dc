"""A program with its own home for each test, and a running platform that read-only tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.platform import temporary_folder
from support.program import ONE_WORKER, TWO_WORKERS, Program


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder that other users can enter, as computes must; those of pytest are closed."""
    with temporary_folder(0o755) as path:
        yield path


@pytest.fixture
def bough(folder: Path) -> Iterator[Program]:
    program = Program(folder / "home", ONE_WORKER)
    yield program
    program.clean_up()


@pytest.fixture(scope="session")
def shared_bough() -> Iterator[Program]:
    """A running platform for tests that do not change it, except for instant databases."""
    with temporary_folder(0o755) as folder:
        program = Program(folder / "home", TWO_WORKERS)
        try:
            program.up()
            yield program
        finally:
            program.clean_up()
