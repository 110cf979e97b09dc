"""Which segments of WAL a volume has, told by its files, and how they are handed on. No server need run.

A file that is kept for later use has the name of a segment to come, so each is known by how it begins. The
folders are a tenant's: they are held open, and no link in them is followed.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bough.engine.local.durable import sync_folder
from bough.engine.local.volumes.copying import opened_file, opened_folder
from bough.postgres import wal
from bough.postgres.control_file import PATH as CONTROL_FILE
from bough.postgres.control_file import ControlFile

_SMALL_FILE = 8192
_HANDED = ".handed"  # what is being copied; Postgres takes it for nothing


def control(data: Path) -> ControlFile:
    """What the server of a data folder says of itself there; an OSError or struct.error when it is broken."""
    with opened_file(data / CONTROL_FILE) as file:
        return ControlFile.parse(os.read(file, _SMALL_FILE))


def has(folder: Path, segment: str) -> bool:
    try:
        with _opened(folder) as here, opened_file(segment, here) as file:
            return wal.is_begun(segment, os.read(file, wal.HEAD_BYTES))
    except OSError:
        return False


def last_from(folder: Path, first: str) -> str | None:
    """The last of those that follow one another from the first on; None when that one is missing."""
    last = None
    for segment in _on_from(folder, first):
        last = segment
    return last


def hand_on(source: Path, target: Path, first: str, clone: Callable[[Path, Path], None]) -> None:
    """What is there of the WAL from the first segment on is in the target too. Neither has a server."""
    with _opened(source) as here, _opened(target) as there:
        for segment in _on_from(source, first):
            _replace(_path(here, segment), there, segment, clone)
    sync_folder(target)


def _replace(file: Path, there: int, segment: str, clone: Callable[[Path, Path], None]) -> None:
    fresh = segment + _HANDED
    with suppress(FileNotFoundError):
        os.unlink(fresh, dir_fd=there)
    clone(file, _path(there, fresh))
    with opened_file(fresh, there) as copied:
        os.fsync(copied)
    os.rename(fresh, segment, src_dir_fd=there, dst_dir_fd=there)


def _on_from(folder: Path, first: str) -> Iterator[str]:
    segment = first
    while has(folder, segment):
        yield segment
        segment = wal.next_segment(segment)


def _path(folder: int, name: str) -> Path:
    return Path(f"/proc/self/fd/{folder}/{name}")


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    with opened_folder(folder.parent) as above, opened_folder(folder.name, above) as here:
        yield here
