"""The blocks of a volume's large files are freed before the files are removed, and no other files change."""

import os
from pathlib import Path
from threading import Event

import pytest

from bough.engine.local.volumes import paced_free
from bough.engine.local.volumes.paced_free import free_blocks

LARGE = paced_free._LARGE
CONTENT = bytes(2 * LARGE)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "base" / "5" / "16384"
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    return path


def no_hurry() -> Event:
    return Event()


def test_large_files_become_empty_piece_by_piece_and_small_ones_stay(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = list[int]()
    real = os.ftruncate

    def record(file: int, size: int) -> None:
        lengths.append(size)
        real(file, size)

    monkeypatch.setattr(paced_free, "_MAX_STEP_BYTES", LARGE // 2)
    monkeypatch.setattr(os, "ftruncate", record)
    small = table.with_name("16385")
    small.write_bytes(bytes(LARGE))
    free_blocks(tmp_path / "data", no_hurry())
    assert (table.stat().st_size, small.stat().st_size) == (0, LARGE)
    assert lengths == [LARGE * 3 // 2, LARGE, LARGE // 2, 0]


def test_in_a_hurry_all_is_left(table: Path, tmp_path: Path) -> None:
    stop_pacing = Event()
    stop_pacing.set()
    free_blocks(tmp_path / "data", stop_pacing)
    assert table.read_bytes() == CONTENT


def test_a_file_with_another_name_keeps_its_bytes(table: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").hardlink_to(table)
    free_blocks(tmp_path / "data", no_hurry())
    assert (tmp_path / "elsewhere").read_bytes() == CONTENT


@pytest.mark.parametrize("name", ["base", "base/5", "base/5/16384"])
def test_a_neighbours_files_behind_a_link_keep_their_bytes(table: Path, tmp_path: Path, name: str) -> None:
    stranger = tmp_path / "stranger"
    (stranger / name).parent.mkdir(parents=True, exist_ok=True)
    (stranger / name).symlink_to(tmp_path / "data" / name)
    free_blocks(stranger, no_hurry())
    assert table.read_bytes() == CONTENT


def test_what_stands_in_the_way_is_passed_over(table: Path, tmp_path: Path) -> None:
    os.mkfifo(table.with_name("16000"))
    table.with_name("16001").mkdir()
    (tmp_path / "data" / "base" / "a file").touch()
    free_blocks(tmp_path / "data", no_hurry())
    free_blocks(tmp_path / "missing", no_hurry())
    assert table.stat().st_size == 0
