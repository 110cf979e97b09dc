"""Copy a data folder: one walk over the tree, whatever way its files are filled.

A fresh volume is over a thousand small files, so the cost is in names, not in bytes. Every name is
looked up in an open folder and no link is followed: the folder's owner may put another thing in the
place of anything, at any moment, and must not make us read or write elsewhere. A file is copied as far as it
reached when it was opened, and its holes stay holes, so that a copy costs no more than its source.
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

FileCopier = Callable[[int, int, os.stat_result], None]  # from an open file, as it was seen, into another that is empty

MAX_COPY_SECONDS = 6 * 3600.0  # of a copy: whatever its owner does to the source meanwhile, the thread comes back
_LARGE = 4 * 1024 * 1024  # as a segment of WAL, of which there may be many
_PIECE = 512 * 1024
_STRETCH = 64 * 1024 * 1024
_BLOCK = 512  # what st_blocks counts
_NOT_IN_THE_KERNEL = (errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)


def copy_tree(source: Path, target: Path, owner: Identity, fill: FileCopier) -> None:
    """Into the empty folder `target` comes what a clone of the data folder `source` has."""
    with open_folder(source) as here, open_folder(target) as there:
        _Copy(owner, fill).folder(here, there, "", 0)
        _give(there, owner)


def copy_file(source: Path, target: Path, owner: Identity, fill: FileCopier) -> None:
    """The folders of both names are ours, or open as those of /proc/self/fd are."""
    with open_folder(source.parent) as here, open_regular_file(source.name, here) as reading:
        seen = os.fstat(reading)
        check_regular_file(seen, source.name, MAX_FILE_BYTES)
        writing = os.open(target, CREATE_FLAGS, 0o600)
        try:
            _give(writing, owner)
            fill(reading, writing, seen)
        finally:
            os.close(writing)


def copy_bytes(reading: int, writing: int, seen: os.stat_result) -> None:
    """The kernel moves them. Some file systems cannot copy between one another that way.

    A large file is read and synced piece by piece, and nothing of it ahead: more at once would keep waiting
    whoever else needs the disk. So would what others have changed meanwhile, if it all were synced at the end.
    """
    size = seen.st_size
    if seen.st_blocks * _BLOCK >= size:
        if size and not _is_copied_at_once(reading, writing, size):
            _copy_stretch(reading, writing, size)
        return
    for start, end in _data(reading, size):
        os.lseek(reading, start, os.SEEK_SET)
        os.lseek(writing, start, os.SEEK_SET)
        _copy_stretch(reading, writing, end - start)
    os.ftruncate(writing, min(size, os.fstat(reading).st_size))


def _is_copied_at_once(reading: int, writing: int, size: int) -> bool:
    """Most files are small, and every call counts. What is not copied by it is copied from the beginning."""
    if size >= _LARGE:
        return False
    try:
        if os.copy_file_range(reading, writing, size, 0, 0) == size:
            return True
    except OSError as error:
        if error.errno not in _NOT_IN_THE_KERNEL:
            raise
    return False


def _data(file: int, size: int) -> Iterator[tuple[int, int]]:
    """Where a file with holes has data, up to a size."""
    end = 0
    while end < size:
        try:
            start = os.lseek(file, end, os.SEEK_DATA)
            end = os.lseek(file, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:  # there is none from here on
                raise
            return
        if start < size:
            yield start, min(end, size)


def _copy_stretch(reading: int, writing: int, size: int) -> None:
    try:
        _copy_pieces(reading, writing, size, partial(os.copy_file_range, reading, writing))
    except OSError as error:
        if error.errno not in _NOT_IN_THE_KERNEL:
            raise
        _copy_pieces(reading, writing, size, partial(os.sendfile, writing, reading, None))


def _copy_pieces(reading: int, writing: int, left: int, copy: Callable[[int], int]) -> None:
    size, unsynced = _LARGE, 0
    while left > 0 and (copied := copy(min(size, left))):
        left -= copied
        if copied < size:
            continue
        os.posix_fadvise(reading, 0, 0, os.POSIX_FADV_RANDOM)
        os.fdatasync(writing)
        size = _PIECE
        unsynced += copied
        if unsynced >= _STRETCH:
            sync_filesystem_fd(writing)
            unsynced = 0


def chown_tree(folder: Path, owner: Identity) -> None:
    for parent, _, names in os.walk(folder):
        os.chown(parent, owner.uid, owner.gid)
        for name in names:
            os.chown(Path(parent) / name, owner.uid, owner.gid, follow_symlinks=False)


class _Copy:
    def __init__(self, owner: Identity, fill: FileCopier) -> None:
        self._owner = owner
        self._gives = not owner.is_current_user
        self._fill = fill
        self._names = MAX_TREE_ENTRIES  # that there may still be
        self._until = clock.monotonic() + MAX_COPY_SECONDS

    def folder(self, here: int, there: int, prefix: str, depth: int) -> None:
        folders: list[str] = []
        with os.scandir(here) as entries:
            for entry in entries:
                name = entry.name
                relative = prefix + name
                self._names -= 1
                if is_excluded(relative):
                    continue
                if entry.is_file(follow_symlinks=False):
                    if prefix or name not in EMPTIED_FOLDERS:
                        self._file(relative, name, here, there)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                elif entry.is_symlink() and not is_emptied(relative):
                    self._link(name, here, there)
                if self._names < 0:
                    raise TooManyEntries(MAX_TREE_ENTRIES)
                if clock.monotonic() > self._until:
                    raise CopyTimeout(MAX_COPY_SECONDS)
        for name in folders:
            self._subfolder(name, here, there, prefix, depth + 1)

    def _subfolder(self, name: str, here: int, there: int, prefix: str, depth: int) -> None:
        check_depth(depth)
        os.mkdir(name, 0o700, dir_fd=there)
        with open_folder(name, there) as below_there:
            _give(below_there, self._owner)
            if is_emptied(prefix + name):
                return
            try:
                below_here = os.open(name, FOLDER_FLAGS, dir_fd=here)
            except FileNotFoundError:
                return
            except OSError as error:
                raise to_tenant_file_error(error, name) from error
            try:
                self.folder(below_here, below_there, f"{prefix}{name}/", depth)
            finally:
                os.close(below_here)

    def _link(self, name: str, here: int, there: int) -> None:
        try:
            aim = os.readlink(name, dir_fd=here)
        except FileNotFoundError:
            return
        os.symlink(aim, name, dir_fd=there)
        os.chown(name, self._owner.uid, self._owner.gid, dir_fd=there, follow_symlinks=False)

    def _file(self, relative: str, name: str, here: int, there: int) -> None:
        """Without `with`: this is the hot path."""
        try:
            reading = os.open(name, READ_FLAGS, dir_fd=here)
        except FileNotFoundError:
            return
        except OSError as error:
            raise to_tenant_file_error(error, relative) from error
        try:
            seen = os.fstat(reading)
            if not S_ISREG(seen.st_mode) or seen.st_size > MAX_FILE_BYTES:
                check_regular_file(seen, relative, MAX_FILE_BYTES)
            writing = os.open(name, CREATE_FLAGS, 0o600, dir_fd=there)
            try:
                if self._gives:
                    os.fchown(writing, self._owner.uid, self._owner.gid)
                self._fill(reading, writing, seen)
            finally:
                os.close(writing)
        finally:
            os.close(reading)


def _give(file: int, owner: Identity) -> None:
    if not owner.is_current_user:
        os.fchown(file, owner.uid, owner.gid)
