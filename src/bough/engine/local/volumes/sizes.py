"""How much of a folder is its own, and how much it shares with other folders."""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bough.engine.local.volumes.copying import DEEPEST, opened_file, opened_folder
from bough.engine.local.volumes.ioctls import extents

_BLOCK = 512  # what st_blocks counts
_UNKNOWN = (errno.EOPNOTSUPP, errno.ENOTTY)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes on disk, of files."""

    own: int
    shared: int


def sizes(folder: Path) -> Sizes:
    """Of all files in a tree that may be in use. Where a file system does not tell, all is its own."""
    with opened_folder(folder) as descriptor:
        found = list(_files(descriptor))
    return Sizes(sum(one.own for one in found), sum(one.shared for one in found))


def _files(folder: int, depth: int = 0) -> Iterator[Sizes]:
    with os.scandir(folder) as entries:
        listed = list(entries)
    for entry in listed:
        try:
            if entry.is_file(follow_symlinks=False):
                with opened_file(entry.name, folder) as file:
                    yield _told(file)
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
