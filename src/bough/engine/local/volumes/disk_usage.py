"""How much of a folder is its own and how much it shares with others, on disk; and what its files say they hold."""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bough.engine.local.tenant_files import (
    MAX_DEPTH,
    MAX_TREE_ENTRIES,
    TenantFileError,
    TooManyEntries,
    open_folder,
    open_regular_file,
    scan_entries,
)
from bough.engine.local.volumes.ioctls import extents

_BLOCK = 512  # what st_blocks counts
_UNKNOWN = (errno.EOPNOTSUPP, errno.ENOTTY)


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """Bytes on disk, of files."""

    own: int
    shared: int


@dataclass(frozen=True, slots=True)
class ApparentSize:
    """Bytes that files say they hold, holes too: all of them, and the largest."""

    total: int = 0
    largest: int = 0

    def __add__(self, other: "ApparentSize") -> Self:
        return type(self)(self.total + other.total, max(self.largest, other.largest))


def measure_disk_usage(folder: Path, max_entries: int = MAX_TREE_ENTRIES) -> DiskUsage:
    """Of all files in a tree that may be in use. Where a file system does not tell, all is its own.

    A TooManyNames when one of its folders has more than `most` names.
    """
    with open_folder(folder) as descriptor:
        return measure_disk_usage_fd(descriptor, max_entries)


def measure_disk_usage_fd(folder: int, max_entries: int = MAX_TREE_ENTRIES) -> DiskUsage:
    """The same, of an open one."""
    own = shared = 0
    for file in _files(folder, max_entries):
        told = _measure_file(file)
        own, shared = own + told.own, shared + told.shared
    return DiskUsage(own, shared)


def measure_apparent_size(folder: Path) -> ApparentSize:
    said = ApparentSize()
    with open_folder(folder) as descriptor:
        for file in _files(descriptor, MAX_TREE_ENTRIES):
            size = os.fstat(file).st_size
            said += ApparentSize(size, size)
    return said


def _files(folder: int, most: int, depth: int = 0) -> Iterator[int]:
    """Each is open until the next. A link, a pipe or whatever is no file has no size."""
    for entry in scan_entries(folder, most):
        try:
            if entry.is_file(follow_symlinks=False):
                with open_regular_file(entry.name, folder) as file:
                    yield file
            elif entry.is_dir(follow_symlinks=False) and depth < MAX_DEPTH:
                with open_folder(entry.name, folder) as below:
                    yield from _files(below, most, depth + 1)
        except TooManyEntries:
            raise
        except (FileNotFoundError, TenantFileError):
            continue


def _measure_file(file: int) -> DiskUsage:
    own = shared = 0
    try:
        for extent in extents(file):  # there may be millions
            if extent.is_shared:
                shared += extent.length
            else:
                own += extent.length
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
        return DiskUsage(os.fstat(file).st_blocks * _BLOCK, 0)
    return DiskUsage(own, shared)
