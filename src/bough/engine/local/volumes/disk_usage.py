"""Measures the bytes on disk that a folder owns alone or shares with others, and the apparent size of its files."""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bough.engine.local.tenant_file_checks import MAX_DEPTH, MAX_TREE_ENTRIES, TenantFileError, TooManyEntries
from bough.engine.local.tenant_files import BLOCK_BYTES, open_folder, open_regular_file, scan_entries
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.ioctls import iterate_extents

_NO_EXTENT_MAP = (errno.EOPNOTSUPP, errno.ENOTTY)


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """Bytes on disk."""

    own: int
    shared: int


@dataclass(frozen=True, slots=True)
class ApparentSize:
    """Sizes that files report, holes included: the total and the largest."""

    total: int = 0
    largest: int = 0

    def __add__(self, other: "ApparentSize") -> Self:
        return type(self)(self.total + other.total, max(self.largest, other.largest))


def measure_disk_usage(folder: Path, max_entries: int = MAX_TREE_ENTRIES) -> DiskUsage:
    """Measure all files of a tree, which may be in use.

    Where the file system has no extent map, all bytes count as own. Raises TooManyEntries if one of its folders has
    more than `max_entries` entries.
    """
    with open_folder(folder) as descriptor:
        return measure_disk_usage_fd(descriptor, max_entries)


def measure_disk_usage_fd(folder: int, max_entries: int = MAX_TREE_ENTRIES) -> DiskUsage:
    """Measure the files of an open folder."""
    own = shared = 0
    for file in _files(folder, max_entries):
        usage = _measure_file(file)
        own, shared = own + usage.own, shared + usage.shared
    return DiskUsage(own, shared)


def measure_own_bytes(folder: VolumeFolder) -> int | None:
    """Return the bytes on disk, WAL included, that no other volume shares; None if the volume does not exist."""
    try:
        record = folder.read_record()
        if record is None:
            return None
        has_external_wal = record.has_external_wal and folder.external_wal.is_dir()
        wal_bytes = measure_disk_usage(folder.external_wal).own if has_external_wal else 0
        return measure_disk_usage(folder.path).own + wal_bytes
    except FileNotFoundError:
        return None


def is_at_most(folder: Path, max_bytes: int, max_files: int) -> bool:
    """Return whether the files of a tree have no more bytes on disk, without looking at more files than that."""
    total = 0
    with open_folder(folder) as descriptor:
        for number, file in enumerate(_files(descriptor, MAX_TREE_ENTRIES), start=1):
            total += os.fstat(file).st_blocks * BLOCK_BYTES
            if total > max_bytes or number > max_files:
                return False
    return True


def measure_apparent_size(folder: Path) -> ApparentSize:
    total = ApparentSize()
    with open_folder(folder) as descriptor:
        for file in _files(descriptor, MAX_TREE_ENTRIES):
            size = os.fstat(file).st_size
            total += ApparentSize(size, size)
    return total


def _files(folder: int, max_entries: int, depth: int = 0) -> Iterator[int]:
    """Yield the regular files of a tree, each open until the next one. Anything else has no size."""
    for entry in scan_entries(folder, max_entries):
        try:
            if entry.is_file(follow_symlinks=False):
                with open_regular_file(entry.name, folder) as file:
                    yield file
            elif entry.is_dir(follow_symlinks=False) and depth < MAX_DEPTH:
                with open_folder(entry.name, folder) as below:
                    yield from _files(below, max_entries, depth + 1)
        except TooManyEntries:
            raise
        except (FileNotFoundError, TenantFileError):
            continue


def _measure_file(file: int) -> DiskUsage:
    own = shared = 0
    try:
        for extent in iterate_extents(file):  # there may be millions
            if extent.is_shared:
                shared += extent.length
            else:
                own += extent.length
    except OSError as error:
        if error.errno not in _NO_EXTENT_MAP:
            raise
        return DiskUsage(os.fstat(file).st_blocks * BLOCK_BYTES, 0)
    return DiskUsage(own, shared)
