"""Copy a folder tree fast: the kernel moves the bytes, and nothing is done twice per file.

A fresh volume is over a thousand small files, so the cost is in names, not in bytes; several
threads would only wait for one another.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from bough.engine.local.sandbox import Identity

_PIECE = 64 * 1024 * 1024


def copy_tree(source: Path, target: Path, owner: Identity) -> None:
    """`target`, which must not exist, becomes a copy of `source` that only `owner` may open."""
    _make_folder(str(target), owner)
    waiting = [(str(source), str(target))]
    while waiting:
        here, there = waiting.pop()
        with os.scandir(here) as entries:
            for entry in entries:
                copy = f"{there}/{entry.name}"
                if entry.is_symlink():
                    _copy_link(entry.path, copy, owner)
                elif entry.is_dir():
                    _make_folder(copy, owner)
                    waiting.append((entry.path, copy))
                else:
                    _copy_file(entry.path, copy, owner)


def chown_tree(folder: Path, owner: Identity) -> None:
    for parent, _, names in os.walk(folder):
        os.chown(parent, owner.uid, owner.gid)
        for name in names:
            os.chown(Path(parent) / name, owner.uid, owner.gid, follow_symlinks=False)


def _make_folder(path: str, owner: Identity) -> None:
    os.mkdir(path, 0o700)  # noqa: PTH102 - strings: this is the hot path
    if not owner.is_ours:
        os.chown(path, owner.uid, owner.gid)


def _copy_link(source: str, target: str, owner: Identity) -> None:
    os.symlink(os.readlink(source), target)  # noqa: PTH115, PTH211 - strings, as above
    os.chown(target, owner.uid, owner.gid, follow_symlinks=False)


def _copy_file(source: str, target: str, owner: Identity) -> None:
    reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if not owner.is_ours:
                os.fchown(writing, owner.uid, owner.gid)
            for _ in _moved(reading, writing):
                pass
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _moved(reading: int, writing: int) -> Iterator[int]:
    """The bytes moved, piece by piece. Some file systems cannot copy between one another in the kernel."""
    try:
        while count := os.copy_file_range(reading, writing, _PIECE):
            yield count
    except OSError:
        offset = os.lseek(reading, 0, os.SEEK_CUR)
        while count := os.sendfile(writing, reading, offset, _PIECE):
            offset += count
            yield count
