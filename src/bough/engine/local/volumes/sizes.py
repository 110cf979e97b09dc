"""How much of a folder is its own and how much it shares with others, on disk; and what its files say they hold."""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bough.engine.local.volumes.copying import DEEPEST, opened_file, opened_folder
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


def sizes(folder: Path) -> Sizes:
    """Of all files in a tree that may be in use. Where a file system does not tell, all is its own."""
    with opened_folder(folder) as descriptor:
        found = [_told(file) for file in _files(descriptor)]
    return Sizes(sum(one.own for one in found), sum(one.shared for one in found))


def weight(folder: Path) -> Weight:
    with opened_folder(folder) as descriptor:
        told = [os.fstat(file).st_size for file in _files(descriptor)]
    return Weight(sum(told), max(told, default=0))


def _files(folder: int, depth: int = 0) -> Iterator[int]:
    """Each is open until the next."""
    with os.scandir(folder) as entries:
        listed = list(entries)
    for entry in listed:
        try:
            if entry.is_file(follow_symlinks=False):
                with opened_file(entry.name, folder) as file:
                    yield file
            elif entry.is_dir(follow_symlinks=False) and depth < DEEPEST:
                with opened_folder(entry.name, folder) as below:
                    yield from _files(below, depth + 1)
        except FileNotFoundError:
            continue


def _told(file: int) -> Sizes:
    try:
        found = list(extents(file))
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
        return Sizes(os.fstat(file).st_blocks * _BLOCK, 0)
    shared = sum(extent.length for extent in found if extent.shared)
    return Sizes(sum(extent.length for extent in found) - shared, shared)
