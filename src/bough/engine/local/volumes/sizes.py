"""How much of a folder is its own and how much it shares with others, on disk; and what its files say they hold."""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bough.engine.local.tenant_files import (
    DEEPEST,
    MOST_NAMES,
    TenantFileError,
    TooManyNames,
    entries,
    opened_file,
    opened_folder,
)
from bough.engine.local.volumes.ioctls import extents

_BLOCK = 512  # what st_blocks counts
_UNKNOWN = (errno.EOPNOTSUPP, errno.ENOTTY)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes on disk, of files."""

    own: int
    shared: int


@dataclass(frozen=True, slots=True)
class Weight:
    """Bytes that files say they hold, holes too: all of them, and the largest."""

    total: int = 0
    largest: int = 0

    def __add__(self, other: "Weight") -> Self:
        return type(self)(self.total + other.total, max(self.largest, other.largest))


def sizes(folder: Path, most: int = MOST_NAMES) -> Sizes:
    """Of all files in a tree that may be in use. Where a file system does not tell, all is its own.

    A TooManyNames when one of its folders has more than `most` names.
    """
    with opened_folder(folder) as descriptor:
        return sizes_of(descriptor, most)


def sizes_of(folder: int, most: int = MOST_NAMES) -> Sizes:
    """The same, of an open one."""
    own = shared = 0
    for file in _files(folder, most):
        told = _told(file)
        own, shared = own + told.own, shared + told.shared
    return Sizes(own, shared)


def weight(folder: Path) -> Weight:
    said = Weight()
    with opened_folder(folder) as descriptor:
        for file in _files(descriptor, MOST_NAMES):
            size = os.fstat(file).st_size
            said += Weight(size, size)
    return said


def _files(folder: int, most: int, depth: int = 0) -> Iterator[int]:
    """Each is open until the next. A link, a pipe or whatever is no file has no size."""
    for entry in entries(folder, most):
        try:
            if entry.is_file(follow_symlinks=False):
                with opened_file(entry.name, folder) as file:
                    yield file
            elif entry.is_dir(follow_symlinks=False) and depth < DEEPEST:
                with opened_folder(entry.name, folder) as below:
                    yield from _files(below, most, depth + 1)
        except TooManyNames:
            raise
        except (FileNotFoundError, TenantFileError):
            continue


def _told(file: int) -> Sizes:
    own = shared = 0
    try:
        for extent in extents(file):  # there may be millions
            if extent.shared:
                shared += extent.length
            else:
                own += extent.length
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
        return Sizes(os.fstat(file).st_blocks * _BLOCK, 0)
    return Sizes(own, shared)
