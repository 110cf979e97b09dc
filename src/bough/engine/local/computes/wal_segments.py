"""Find and copy the WAL segments of a volume by their files, without a running server.

Postgres recycles old files under the names of future segments, so each segment is identified by its header. Tenants can
write to the folders: they are held open, and links in them are not followed.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from bough.engine.local.durable_files import sync_folder_fd
from bough.engine.local.tenant_files import (
    descriptor_path,
    entry_exists,
    open_regular_file,
    open_tenant_folder,
    read_head,
    rename,
    unlink,
)
from bough.postgres import wal

_TEMPORARY_SUFFIX = ".handed"  # of a copy in progress; Postgres ignores such files


def has_segment(folder: Path, segment: str) -> bool:
    try:
        with open_tenant_folder(folder) as folder_fd:
            return wal.is_initialized(segment, read_head(segment, folder_fd, wal.PAGE_HEADER_BYTES))
    except OSError:
        return False


def has_file(folder: Path, name: str) -> bool:
    """Return whether a WAL folder has an entry of this name."""
    try:
        with open_tenant_folder(folder) as folder_fd:
            return entry_exists(name, folder_fd)
    except OSError:
        return False


def find_last_contiguous(folder: Path, first: str) -> str | None:
    """Return the last segment of the contiguous run that begins with `first`, or None when `first` is missing."""
    last = None
    for segment in _iterate_contiguous(folder, first):
        last = segment
    return last


def copy_segments(source: Path, target: Path, first: str, clone: Callable[[Path, Path], None]) -> None:
    """Copy the contiguous segments from `first` on. No server may run on either folder."""
    with open_tenant_folder(source) as source_fd, open_tenant_folder(target) as target_fd:
        for segment in _iterate_contiguous(source, first):
            _replace(descriptor_path(source_fd, segment), target_fd, segment, clone)
        sync_folder_fd(target_fd)


def _replace(file: Path, target_fd: int, segment: str, clone: Callable[[Path, Path], None]) -> None:
    temporary = segment + _TEMPORARY_SUFFIX
    unlink(temporary, target_fd)
    clone(file, descriptor_path(target_fd, temporary))
    with open_regular_file(temporary, target_fd) as copy_fd:
        os.fsync(copy_fd)
    rename(temporary, segment, target_fd)


def _iterate_contiguous(folder: Path, first: str) -> Iterator[str]:
    segment = first
    while has_segment(folder, segment):
        yield segment
        segment = wal.next_segment(segment)
