"""Copies one file of a tenant, in the kernel where the file systems support it.

A file is copied up to its size when it was opened, and its holes stay holes, so a copy takes no more space than its
source.
"""

import errno
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bough.engine.local.durable_files import sync_filesystem_fd
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_file_checks import MAX_FILE_BYTES, check_regular_file
from bough.engine.local.tenant_files import BLOCK_BYTES, CREATE_FLAGS, open_folder, open_regular_file

FileCopier = Callable[[int, int, os.stat_result], None]  # source, empty target, status of the source

_LARGE = 4 * 1024 * 1024  # the size of a WAL segment, of which there may be many
_PIECE = 512 * 1024
_SYNC_BYTES = 64 * 1024 * 1024
_NO_KERNEL_COPY = (errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)


def copy_file(source: Path, target: Path, owner: Identity, copy_content: FileCopier) -> None:
    """The parent folders of both paths are the platform's, or open ones in /proc/self/fd."""
    with open_folder(source.parent) as source_folder, open_regular_file(source.name, source_folder) as reading:
        status = os.fstat(reading)
        check_regular_file(status, source.name, MAX_FILE_BYTES)
        writing = os.open(target, CREATE_FLAGS, 0o600)
        try:
            change_owner(writing, owner)
            copy_content(reading, writing, status)
        finally:
            os.close(writing)


def copy_bytes(reading: int, writing: int, status: os.stat_result) -> None:
    """Copy in the kernel, where the file systems support it.

    A large file is read and synced piece by piece, without readahead: larger pieces would block other users of the
    disk, and so would syncing all changes at the end.
    """
    size = status.st_size
    if status.st_blocks * BLOCK_BYTES >= size:
        if size and not _try_copy_at_once(reading, writing, size):
            _copy_range(reading, writing, size)
        return
    for start, end in _data_ranges(reading, size):
        os.lseek(reading, start, os.SEEK_SET)
        os.lseek(writing, start, os.SEEK_SET)
        _copy_range(reading, writing, end - start)
    os.ftruncate(writing, min(size, os.fstat(reading).st_size))


def _try_copy_at_once(reading: int, writing: int, size: int) -> bool:
    """Copy a small file in one call, because most files are small. On failure the copy starts over."""
    if size >= _LARGE:
        return False
    try:
        if os.copy_file_range(reading, writing, size, 0, 0) == size:
            return True
    except OSError as error:
        if error.errno not in _NO_KERNEL_COPY:
            raise
    return False


def _data_ranges(file: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a file with holes that have data, up to a size."""
    end = 0
    while end < size:
        try:
            start = os.lseek(file, end, os.SEEK_DATA)
            end = os.lseek(file, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:  # no data from here on
                raise
            return
        if start < size:
            yield start, min(end, size)


def _copy_range(reading: int, writing: int, size: int) -> None:
    try:
        _copy_pieces(reading, writing, size, partial(os.copy_file_range, reading, writing))
    except OSError as error:
        if error.errno not in _NO_KERNEL_COPY:
            raise
        _copy_pieces(reading, writing, size, partial(os.sendfile, writing, reading, None))


def _copy_pieces(reading: int, writing: int, remaining: int, copy: Callable[[int], int]) -> None:
    piece, unsynced = _LARGE, 0
    while remaining > 0 and (copied := copy(min(piece, remaining))):
        remaining -= copied
        if copied < piece:
            continue
        os.posix_fadvise(reading, 0, 0, os.POSIX_FADV_RANDOM)
        os.fdatasync(writing)
        piece = _PIECE
        unsynced += copied
        if unsynced >= _SYNC_BYTES:
            sync_filesystem_fd(writing)
            unsynced = 0


def change_owner(file: int, owner: Identity) -> None:
    if not owner.is_current_user:
        os.fchown(file, owner.uid, owner.gid)
