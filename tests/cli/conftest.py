"""A program with a home of its own, cleaned up after the test."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.program import Program


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder that every user may pass, as computes must; pytest's own are closed."""
    path = Path(tempfile.mkdtemp(prefix="bough-cli-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def bough(folder: Path) -> Iterator[Program]:
    program = Program(folder / "home")
    yield program
    program.clean_up()
