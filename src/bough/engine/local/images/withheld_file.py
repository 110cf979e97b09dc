"""The file in a thin image that occupies the free space for which no disk space is reserved.

Every other block of the image has disk space, so that no write in the image fails because the disk below is full: XFS
reports "No space left on device" to the writer before that, as on any disk. Without this file, a page that cannot be
written to the disk is lost from memory, and the next read returns its earlier content.

A crash at any moment leaves blocks reserved that need not be, never the contrary.
"""

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from bough.engine.local.images import allocation
from bough.engine.local.volumes.ioctls import iterate_disk_ranges

NAME = ".bough-withheld"
UNIT = 1024**2  # a multiple of the block size; smaller changes are not made

_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


class WithheldFile:
    """`image_file` is the open file of the image. Not safe for threads."""

    def __init__(self, descriptor: int, image_file: int) -> None:
        self._descriptor = descriptor
        self._image_file = image_file

    @classmethod
    @contextmanager
    def open(cls, mount_point: Path, image_file: int, *, create: bool = False) -> Iterator[Self]:
        """Raise FileNotFoundError if it does not exist, for example because the image is not mounted."""
        descriptor = os.open(mount_point / NAME, _FLAGS | (os.O_CREAT if create else 0), 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield cls(descriptor, image_file)
        finally:
            os.close(descriptor)

    @property
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def grow(self, amount: int, *, keep_reserved: bool = False) -> int:
        """Withhold so many bytes of free space, or less if there is less, and return their disk space."""
        start = self.size
        grown = self._occupy(start, amount // UNIT * UNIT)
        if grown and not keep_reserved:
            self._return_disk_space(self._list_ranges(start, grown))
        return grown

    def shrink(self, amount: int) -> int:
        """Offer so many bytes of withheld space, after reserving disk space for them."""
        size = self.size
        shrunk = min(amount // UNIT * UNIT, size)
        ranges = self._list_ranges(size - shrunk, shrunk)
        try:
            for start, length in ranges:
                allocation.reserve(self._image_file, start, length)
        except OSError:
            self._return_disk_space(ranges)
            raise
        os.ftruncate(self._descriptor, size - shrunk)
        return shrunk

    def drop_unfinished(self) -> None:
        """Drop what an interrupted `grow` allocated behind the end."""
        os.ftruncate(self._descriptor, self.size)

    def reserve_the_rest(self) -> None:
        """Return the disk space of what is withheld, and reserve disk space for every other block of the image."""
        withheld = sorted(self._list_ranges(0, self.size))
        self._return_disk_space(withheld)
        for start, length in _list_gaps(withheld, os.fstat(self._image_file).st_size):
            allocation.reserve(self._image_file, start, length)

    def _occupy(self, start: int, amount: int) -> int:
        """XFS needs some of the free space for itself, so the whole amount may be too much."""
        end, step = start, amount
        while step > 0:
            try:
                allocation.reserve(self._descriptor, end, step)
                end += step
            except OSError as error:
                os.ftruncate(self._descriptor, end)
                if error.errno != errno.ENOSPC:
                    raise
                step = step // 2 // UNIT * UNIT
            step = min(step, start + amount - end)
        if end > start:
            os.fsync(self._descriptor)  # before the disk space is returned
        return end - start

    def _list_ranges(self, start: int, length: int) -> list[tuple[int, int]]:
        return list(iterate_disk_ranges(self._descriptor, start, length))

    def _return_disk_space(self, ranges: Iterable[tuple[int, int]]) -> None:
        for start, length in ranges:
            with suppress(OSError):  # it stays reserved
                allocation.release(self._image_file, start, length)


def _list_gaps(ranges: Iterable[tuple[int, int]], end: int) -> Iterator[tuple[int, int]]:
    position = 0
    for start, length in ranges:
        if start > position:
            yield position, start - position
        position = start + length
    if end > position:
        yield position, end - position
