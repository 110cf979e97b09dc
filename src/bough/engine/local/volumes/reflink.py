"""Volumes whose files share blocks until they are written: for XFS and other file systems with reflinks.

A small file is shared in one call. A large one is shared piece by piece, because the call blocks writers of the whole
file; and because a call takes time per extent, of which a few megabytes may have one or thousands, each piece ends
after a number of extents. Large files are shared in parallel threads. Small ones stay in one thread: a call ends before
another thread could start.
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
from bough.engine.local.volumes.file_copy import FileCopier, copy_bytes, copy_file
from bough.engine.local.volumes.ioctls import clone_range, clone_whole, find_extents_end
from bough.engine.local.volumes.paced_free import free_blocks
from bough.engine.local.volumes.tree_copy import copy_tree

_MB = 1024 * 1024
_LARGE = 4 * _MB
_MAX_PIECE_BYTES = 64 * _MB
_THREADS = min(4, os.cpu_count() or 1)
_NO_EXTENT_MAP = (errno.EOPNOTSUPP, errno.ENOTTY)
_CANNOT_SHARE = (errno.EXDEV, errno.EOPNOTSUPP, errno.ENOTTY)
_MAX_RETRIES = 100  # for a file that shrinks and grows in turn


class ReflinkDriver:
    name = "reflink"

    def make_folder(self, path: Path) -> None:
        path.mkdir(mode=0o700)

    def clone(self, source: Path, target: Path, owner: Identity) -> None:
        self.make_folder(target)
        reflink_tree(source, target, owner)

    def clone_file(self, source: Path, target: Path, owner: Identity) -> None:
        copy_file(source, target, owner, reflink_or_copy)

    def remove(self, path: Path, stop_pacing: Event | None = None) -> None:
        if stop_pacing is not None:
            free_blocks(path / "data", stop_pacing)
        remove_tree(path)


def reflink_tree(source: Path, target: Path, owner: Identity) -> None:
    with _parallel_copier() as copy:
        copy_tree(source, target, owner, copy)


def reflink_or_copy(reading: int, writing: int, status: os.stat_result) -> None:
    """Share blocks, or copy the bytes where that is impossible, as between two file systems."""
    try:
        if status.st_size > _LARGE:
            _share_pieces(reading, writing, status.st_size)
        elif status.st_size:
            clone_whole(reading, writing)
    except OSError as error:
        if error.errno not in _CANNOT_SHARE:
            raise
        copy_bytes(reading, writing, status)


@contextmanager
def _parallel_copier() -> Iterator[FileCopier]:
    """Yield a copier that shares large files in threads; at the end of the block all are done.

    Few are in progress at a time, because each holds two files open.
    """
    in_progress: deque[Future[None]] = deque()
    with ThreadPoolExecutor(_THREADS, "reflink") as threads:

        def copy(reading: int, writing: int, status: os.stat_result) -> None:
            if status.st_size <= _LARGE:
                reflink_or_copy(reading, writing, status)
                return
            if len(in_progress) == 2 * _THREADS:
                in_progress.popleft().result()
            in_progress.append(threads.submit(_share_and_close, os.dup(reading), os.dup(writing), status))

        yield copy
        for future in in_progress:
            future.result()


def _share_and_close(reading: int, writing: int, status: os.stat_result) -> None:
    try:
        reflink_or_copy(reading, writing, status)
    finally:
        os.close(reading)
        os.close(writing)


def _share_pieces(reading: int, writing: int, size: int) -> None:
    """A file that grows meanwhile is not followed: the last piece is shared in one call with what exists by then."""
    offset = retries = 0
    while offset < size and (remaining := os.fstat(reading).st_size - offset) > 0:
        piece = _piece(reading, offset)
        try:
            clone_range(reading, writing, offset, piece if min(remaining, size - offset) > piece else 0)
        except OSError as error:
            retries += 1
            if error.errno != errno.EINVAL or retries > _MAX_RETRIES:
                raise
            continue  # the file was truncated meanwhile
        offset += piece


def _piece(reading: int, offset: int) -> int:
    try:
        return find_extents_end(reading, offset, _MAX_PIECE_BYTES) - offset
    except OSError as error:
        if error.errno not in _NO_EXTENT_MAP:
            raise
        return _LARGE
