"""A folder of its own for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.platform import temporary_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    with temporary_folder(0o755) as path:
        yield path
