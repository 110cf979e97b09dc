"""A program with a home of its own, cleaned up after the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.program import Program
from world import short_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder that every user may pass, as computes must; pytest's own are closed."""
    with short_folder(0o755) as path:
        yield path


@pytest.fixture
def bough(folder: Path) -> Iterator[Program]:
    program = Program(folder / "home")
    yield program
    program.clean_up()
