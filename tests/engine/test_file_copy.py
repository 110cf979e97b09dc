"""Copying the bytes of one file to another."""

import errno
import os
from pathlib import Path

import pytest

from bough.engine.local.volumes import file_copy
from bough.engine.local.volumes.file_copy import copy_bytes

SIZE = file_copy._LARGE + 2 * file_copy._PIECE + 4096


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the size of the file at each of its syncs."""
    sizes: list[int] = []
    monkeypatch.setattr(os, "fdatasync", lambda file: sizes.append(os.fstat(file).st_size))
    return sizes


def _copy(folder: Path, content: bytes) -> bytes:
    (folder / "from").write_bytes(content)
    with (folder / "from").open("rb") as source, (folder / "to").open("wb") as target:
        copy_bytes(source.fileno(), target.fileno(), os.fstat(source.fileno()))
    return (folder / "to").read_bytes()


@pytest.mark.parametrize("method", ["in the kernel", "between file systems"])
def test_a_large_file_is_synced_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[int], method: str
) -> None:
    if method == "between file systems":

        def refuse(*_: int) -> int:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

        monkeypatch.setattr(os, "copy_file_range", refuse)
    content = os.urandom(SIZE)
    assert _copy(tmp_path, content) == content
    assert synced == [file_copy._LARGE + pieces * file_copy._PIECE for pieces in range(3)]


def test_what_others_changed_is_synced_in_stretches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[int]
) -> None:
    """Not everything at the end, when much has accumulated."""
    synced_sizes: list[int] = []
    monkeypatch.setattr(file_copy, "sync_filesystem_fd", lambda file: synced_sizes.append(os.fstat(file).st_size))
    monkeypatch.setattr(file_copy, "_SYNC_BYTES", 2 * file_copy._PIECE)
    content = os.urandom(file_copy._LARGE + 5 * file_copy._PIECE)
    assert _copy(tmp_path, content) == content
    assert synced_sizes == [file_copy._LARGE + pieces * file_copy._PIECE for pieces in (0, 2, 4)]
    assert len(synced) == 6


def test_a_small_file_waits_for_the_sync_of_all(tmp_path: Path, synced: list[int]) -> None:
    assert _copy(tmp_path, b"small") == b"small"
    assert synced == []
