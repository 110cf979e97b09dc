"""The footprint of a data directory, whatever a tenant has put into it."""

import os
from pathlib import Path

import pytest

from bough.engine.local.volumes import footprint
from bough.engine.local.volumes.footprint import measure_footprint

MB = 1024**2


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "base" / "5").mkdir(parents=True)
    (folder / "base" / "pgsql_tmp" / "pgsql_tmp1.0.fileset").mkdir(parents=True)
    (folder / "base" / "5" / "1").write_bytes(b"x" * MB)
    (folder / "base" / "pgsql_tmp" / "pgsql_tmp1.0.fileset" / "0").write_bytes(b"x" * MB)
    return folder


def test_files_of_databases_and_temporary_ones_count(data: Path) -> None:
    assert 2 * MB <= measure_footprint(data) < 2.1 * MB


def test_links_pipes_and_holes_count_as_next_to_nothing(data: Path, tmp_path: Path) -> None:
    before = measure_footprint(data)
    large = tmp_path / "large"
    large.mkdir()
    (large / "file").write_bytes(b"x" * MB)
    (data / "base" / "6").symlink_to(large)
    (data / "base" / "5" / "2").symlink_to(large / "file")
    (data / "global").symlink_to(large)
    os.mkfifo(data / "base" / "5" / "3")
    os.mkfifo(data / "pg_notify")
    (data / "base" / "5" / "4").touch()
    os.truncate(data / "base" / "5" / "4", 1 << 40)
    assert measure_footprint(data) - before < 64 * 1024, "the links themselves"


def test_no_more_than_so_many_files_are_looked_at(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def read_entry(entry: os.DirEntry[str]) -> int:
        read.append(entry.name)
        return 0

    monkeypatch.setattr(footprint, "_MAX_ENTRIES", 10)
    monkeypatch.setattr(footprint, "_disk_bytes", read_entry)
    for number in range(100):
        (data / "base" / "5" / f"9{number}").touch()
    measure_footprint(data)
    assert 0 < len(read) <= 10
