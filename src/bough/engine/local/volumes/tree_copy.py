"""Copies a data folder in one walk over the tree, with any way to fill its files.

A new volume has over a thousand small files, so the cost is in names, not in bytes. Every name is looked up in an open
folder and no link is followed: the folder's owner may replace anything at any moment and must not make us read or write
elsewhere. A file is copied up to its size when it was opened, and its holes stay holes, so a copy takes no more space
than its source.
"""

import errno
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from stat import S_ISREG

from bough import clock
from bough.engine.local.durable_files import sync_filesystem_fd
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_files import (
    BLOCK_BYTES,
    CREATE_FLAGS,
    FOLDER_FLAGS,
    MAX_FILE_BYTES,
    MAX_TREE_ENTRIES,
    READ_FLAGS,
    CopyTimeout,
    TooManyEntries,
    check_depth,
    check_regular_file,
    open_folder,
    open_regular_file,
    to_tenant_file_error,
)
from bough.postgres.clone_filter import EMPTIED_FOLDERS, is_emptied, is_excluded

FileCopier = Callable[[int, int, os.stat_result], None]  # source, empty target, status of the source

MAX_COPY_SECONDS = 6 * 3600.0  # so that no tenant can block a thread for ever
_LARGE = 4 * 1024 * 1024  # the size of a WAL segment, of which there may be many
_PIECE = 512 * 1024
_SYNC_BYTES = 64 * 1024 * 1024
_NO_KERNEL_COPY = (errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)


def copy_tree(source: Path, target: Path, owner: Identity, copy_content: FileCopier) -> None:
    """Copy to the empty folder `target` what a clone of the data folder `source` has."""
    with open_folder(source) as source_folder, open_folder(target) as target_folder:
        _Copy(owner, copy_content).folder(source_folder, target_folder, "", 0)
        _change_owner(target_folder, owner)


def copy_file(source: Path, target: Path, owner: Identity, copy_content: FileCopier) -> None:
    """The parent folders of both paths are ours, or open ones in /proc/self/fd."""
    with open_folder(source.parent) as source_folder, open_regular_file(source.name, source_folder) as reading:
        status = os.fstat(reading)
        check_regular_file(status, source.name, MAX_FILE_BYTES)
        writing = os.open(target, CREATE_FLAGS, 0o600)
        try:
            _change_owner(writing, owner)
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


def chown_tree(folder: Path, owner: Identity) -> None:
    for parent, _, names in os.walk(folder):
        os.chown(parent, owner.uid, owner.gid)
        for name in names:
            os.chown(Path(parent) / name, owner.uid, owner.gid, follow_symlinks=False)


class _Copy:
    def __init__(self, owner: Identity, copy_content: FileCopier) -> None:
        self._owner = owner
        self._changes_owner = not owner.is_current_user
        self._copy_content = copy_content
        self._remaining = MAX_TREE_ENTRIES
        self._deadline = clock.monotonic() + MAX_COPY_SECONDS

    def folder(self, source: int, target: int, prefix: str, depth: int) -> None:
        folders: list[str] = []
        with os.scandir(source) as entries:
            for entry in entries:
                name = entry.name
                relative = prefix + name
                self._remaining -= 1
                if is_excluded(relative):
                    continue
                if entry.is_file(follow_symlinks=False):
                    if prefix or name not in EMPTIED_FOLDERS:
                        self._file(relative, name, source, target)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                elif entry.is_symlink() and not is_emptied(relative):
                    self._link(name, source, target)
                if self._remaining < 0:
                    raise TooManyEntries(MAX_TREE_ENTRIES)
                if clock.monotonic() > self._deadline:
                    raise CopyTimeout(MAX_COPY_SECONDS)
        for name in folders:
            self._subfolder(name, source, target, prefix, depth + 1)

    def _subfolder(self, name: str, source_parent: int, target_parent: int, prefix: str, depth: int) -> None:
        check_depth(depth)
        os.mkdir(name, 0o700, dir_fd=target_parent)
        with open_folder(name, target_parent) as target:
            _change_owner(target, self._owner)
            if is_emptied(prefix + name):
                return
            try:
                source = os.open(name, FOLDER_FLAGS, dir_fd=source_parent)
            except FileNotFoundError:
                return
            except OSError as error:
                raise to_tenant_file_error(error, name) from error
            try:
                self.folder(source, target, f"{prefix}{name}/", depth)
            finally:
                os.close(source)

    def _link(self, name: str, source: int, target: int) -> None:
        try:
            link_target = os.readlink(name, dir_fd=source)
        except FileNotFoundError:
            return
        os.symlink(link_target, name, dir_fd=target)
        os.chown(name, self._owner.uid, self._owner.gid, dir_fd=target, follow_symlinks=False)

    def _file(self, relative: str, name: str, source: int, target: int) -> None:
        """This is the hot path, so it avoids context managers."""
        try:
            reading = os.open(name, READ_FLAGS, dir_fd=source)
        except FileNotFoundError:
            return
        except OSError as error:
            raise to_tenant_file_error(error, relative) from error
        try:
            status = os.fstat(reading)
            if not S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
                check_regular_file(status, relative, MAX_FILE_BYTES)
            writing = os.open(name, CREATE_FLAGS, 0o600, dir_fd=target)
            try:
                if self._changes_owner:
                    os.fchown(writing, self._owner.uid, self._owner.gid)
                self._copy_content(reading, writing, status)
            finally:
                os.close(writing)
        finally:
            os.close(reading)


def _change_owner(file: int, owner: Identity) -> None:
    if not owner.is_current_user:
        os.fchown(file, owner.uid, owner.gid)
