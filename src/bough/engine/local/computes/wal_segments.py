"""Which segments of WAL a volume has, told by its files, and how they are handed on. No server need run.

A file that is kept for later use has the name of a segment to come, so each is known by how it begins. The
folders are a tenant's: they are held open, and no link in them is followed.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from bough.engine.local.durable_files import sync_folder_fd
from bough.engine.local.tenant_files import (
    entry_exists,
    open_regular_file,
    open_tenant_folder,
    read_head,
    rename,
    unlink,
)
from bough.engine.local.volumes import control_files
from bough.postgres import wal
from bough.postgres.control_file import ControlFile

_HANDED = ".handed"  # what is being copied; Postgres takes it for nothing


def read_control_file(data: Path) -> ControlFile:
    """What the server of a data folder says of itself there; an OSError when it is broken."""
    return control_files.read_control_file(data)


def has_segment(folder: Path, segment: str) -> bool:
    try:
        with open_tenant_folder(folder) as here:
            return wal.is_initialized(segment, read_head(segment, here, wal.PAGE_HEADER_BYTES))
    except OSError:
        return False


def has_file(folder: Path, name: str) -> bool:
    """Whether anything in a folder of WAL has the name."""
    try:
        with open_tenant_folder(folder) as here:
            return entry_exists(name, here)
    except OSError:
        return False


def find_last_contiguous(folder: Path, first: str) -> str | None:
    """The last of those that follow one another from the first on; None when that one is missing."""
    last = None
    for segment in _on_from(folder, first):
        last = segment
    return last


def copy_segments(source: Path, target: Path, first: str, clone: Callable[[Path, Path], None]) -> None:
    """What is there of the WAL from the first segment on is in the target too. Neither has a server."""
    with open_tenant_folder(source) as here, open_tenant_folder(target) as there:
        for segment in _on_from(source, first):
            _replace(_path(here, segment), there, segment, clone)
        sync_folder_fd(there)


def _replace(file: Path, there: int, segment: str, clone: Callable[[Path, Path], None]) -> None:
    fresh = segment + _HANDED
    unlink(fresh, there)
    clone(file, _path(there, fresh))
    with open_regular_file(fresh, there) as copied:
        os.fsync(copied)
    rename(fresh, segment, there)


def _on_from(folder: Path, first: str) -> Iterator[str]:
    segment = first
    while has_segment(folder, segment):
        yield segment
        segment = wal.next_segment(segment)


def _path(folder: int, name: str) -> Path:
    return Path(f"/proc/self/fd/{folder}/{name}")
