"""Volumes whose files share blocks until one of them is written: XFS, and any file system that can.

A small file is shared in one call. A large one is shared piece by piece, for the call keeps writers
out of the whole file until it returns; and as a call takes as long as there are extents, one or
thousands in a few megabytes, each piece ends after so many of them. Large files are shared beside one
another, in threads. Small ones stay with one thread: a call is over before another thread could begin.
"""

import errno
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_trees import remove_tree
from bough.engine.local.volumes.ioctls import clone_range, clone_whole, end_of_extents
from bough.engine.local.volumes.paced_free import free_blocks
from bough.engine.local.volumes.tree_copy import FileCopier, copy_bytes, copy_file, copy_tree

_MB = 1024 * 1024
_LARGE = 4 * _MB
_LARGEST_PIECE = 64 * _MB
_THREADS = min(4, os.cpu_count() or 1)
_NO_MAP = (errno.EOPNOTSUPP, errno.ENOTTY)
_NOTHING_TO_SHARE = (errno.EXDEV, errno.EOPNOTSUPP, errno.ENOTTY)
_LOOKS = 100  # at a file that is cut off and grows in turns


class ReflinkDriver:
    name = "reflink"

    def make_folder(self, path: Path) -> None:
        path.mkdir(mode=0o700)

    def clone(self, source: Path, target: Path, owner: Identity) -> None:
        self.make_folder(target)
        reflink_tree(source, target, owner)

    def clone_file(self, source: Path, target: Path, owner: Identity) -> None:
        copy_file(source, target, owner, reflink_or_copy)

    def remove(self, path: Path, hurry: Event | None = None) -> None:
        if hurry is not None:
            free_blocks(path / "data", hurry)
        remove_tree(path)


def reflink_tree(source: Path, target: Path, owner: Identity) -> None:
    with _large_ones_in_threads() as fill:
        copy_tree(source, target, owner, fill)


def reflink_or_copy(reading: int, writing: int, seen: os.stat_result) -> None:
    """Where nothing can be shared, as between two file systems, the bytes are copied."""
    try:
        if seen.st_size > _LARGE:
            _share_pieces(reading, writing, seen.st_size)
        elif seen.st_size:
            clone_whole(reading, writing)
    except OSError as error:
        if error.errno not in _NOTHING_TO_SHARE:
            raise
        copy_bytes(reading, writing, seen)


@contextmanager
def _large_ones_in_threads() -> Iterator[FileCopier]:
    """At the end all are done. Few are under way at a time, for each keeps two files open."""
    under_way: deque[Future[None]] = deque()
    with ThreadPoolExecutor(_THREADS, "reflink") as threads:

        def fill(reading: int, writing: int, seen: os.stat_result) -> None:
            if seen.st_size <= _LARGE:
                reflink_or_copy(reading, writing, seen)
                return
            if len(under_way) == 2 * _THREADS:
                under_way.popleft().result()
            under_way.append(threads.submit(_share_and_close, os.dup(reading), os.dup(writing), seen))

        yield fill
        for one in under_way:
            one.result()


def _share_and_close(reading: int, writing: int, seen: os.stat_result) -> None:
    try:
        reflink_or_copy(reading, writing, seen)
    finally:
        os.close(reading)
        os.close(writing)


def _share_pieces(reading: int, writing: int, size: int) -> None:
    """A file that grows meanwhile is not followed: the last piece takes what there is by then, in one call."""
    offset = looks = 0
    while offset < size and (left := os.fstat(reading).st_size - offset) > 0:
        piece = _piece(reading, offset)
        try:
            clone_range(reading, writing, offset, piece if min(left, size - offset) > piece else 0)
        except OSError as error:
            looks += 1
            if error.errno != errno.EINVAL or looks > _LOOKS:
                raise
            continue  # the file ends earlier by now
        offset += piece


def _piece(reading: int, offset: int) -> int:
    try:
        return end_of_extents(reading, offset, _LARGEST_PIECE) - offset
    except OSError as error:
        if error.errno not in _NO_MAP:
            raise
        return _LARGE
