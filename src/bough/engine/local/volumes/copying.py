"""Copy a data folder: one walk over the tree, whatever way its files are filled.

A fresh volume is over a thousand small files, so the cost is in names, not in bytes. Every name is
looked up in an open folder and no link is followed: the folder's owner may put another thing in the
place of anything, at any moment, and must not make us read or write elsewhere.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bough.engine.local.durable import sync_filesystem_of
from bough.engine.local.isolation.sandbox import Identity
from bough.postgres.data_folder import is_left_empty, is_left_out

Fill = Callable[[int, int], None]  # from one open file into another, which is empty

_LARGE = 4 * 1024 * 1024  # as a segment of WAL, of which there may be many
_PIECE = 512 * 1024
_STRETCH = 64 * 1024 * 1024
DEEPEST = 32  # Postgres nests five; each level costs two open folders
_OUR_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER = _OUR_FOLDER | os.O_NOFOLLOW
# What is no file any more must not make us wait.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_IN_THE_KERNEL = (errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)


def copy_tree(source: Path, target: Path, owner: Identity, fill: Fill) -> None:
    """Into the empty folder `target` comes what a clone of the data folder `source` has."""
    with opened_folder(source) as here, opened_folder(target) as there:
        _Copy(owner, fill).folder(here, there, "", 0)
        _give(there, owner)


def copy_file(source: Path, target: Path, owner: Identity, fill: Fill) -> None:
    with opened_file(source) as reading, _opened(os.open(target, _WRITE, 0o600)) as writing:
        _give(writing, owner)
        fill(reading, writing)


def copy_bytes(reading: int, writing: int) -> None:
    """The kernel moves them. Some file systems cannot copy between one another that way.

    A large file is read and synced piece by piece, and nothing of it ahead: more at once would keep waiting
    whoever else needs the disk. So would what others have changed meanwhile, if it all were synced at the end.
    """
    try:
        _copy_pieces(reading, writing, partial(os.copy_file_range, reading, writing))
    except OSError as error:
        if error.errno not in _NOT_IN_THE_KERNEL:
            raise
        _copy_pieces(reading, writing, partial(os.sendfile, writing, reading, None))


def _copy_pieces(reading: int, writing: int, copy: Callable[[int], int]) -> None:
    size, unsynced = _LARGE, 0
    while copied := copy(size):
        if copied < size:
            continue
        os.posix_fadvise(reading, 0, 0, os.POSIX_FADV_RANDOM)
        os.fdatasync(writing)
        size = _PIECE
        unsynced += copied
        if unsynced >= _STRETCH:
            sync_filesystem_of(writing)
            unsynced = 0


def chown_tree(folder: Path, owner: Identity) -> None:
    for parent, _, names in os.walk(folder):
        os.chown(parent, owner.uid, owner.gid)
        for name in names:
            os.chown(Path(parent) / name, owner.uid, owner.gid, follow_symlinks=False)


def check_depth(depth: int) -> None:
    if depth > DEEPEST:
        raise OSError(errno.ELOOP, f"A data folder does not nest {depth} deep")


@contextmanager
def opened_folder(path: Path | str, within: int | None = None) -> Iterator[int]:
    """A folder of ours, or the one of that name within an open one and never a link."""
    with _opened(os.open(path, _OUR_FOLDER if within is None else _FOLDER, dir_fd=within)) as descriptor:
        yield descriptor


@contextmanager
def opened_file(path: Path | str, within: int | None = None) -> Iterator[int]:
    with _opened(os.open(path, _READ, dir_fd=within)) as descriptor:
        yield descriptor


class _Copy:
    def __init__(self, owner: Identity, fill: Fill) -> None:
        self._owner = owner
        self._fill = fill

    def folder(self, here: int, there: int, prefix: str, depth: int) -> None:
        folders: list[str] = []
        with os.scandir(here) as entries:
            for entry in entries:
                name = entry.name
                if is_left_out(prefix + name):
                    continue
                if entry.is_file(follow_symlinks=False):
                    self._file(name, here, there)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                elif entry.is_symlink() and not is_left_empty(prefix + name):
                    self._link(name, here, there)
        for name in folders:
            self._subfolder(name, here, there, prefix, depth + 1)

    def _subfolder(self, name: str, here: int, there: int, prefix: str, depth: int) -> None:
        check_depth(depth)
        os.mkdir(name, 0o700, dir_fd=there)
        with opened_folder(name, there) as below_there:
            _give(below_there, self._owner)
            if is_left_empty(prefix + name):
                return
            try:
                below_here = os.open(name, _FOLDER, dir_fd=here)
            except FileNotFoundError:
                return
            with _opened(below_here):
                self.folder(below_here, below_there, f"{prefix}{name}/", depth)

    def _link(self, name: str, here: int, there: int) -> None:
        try:
            aim = os.readlink(name, dir_fd=here)
        except FileNotFoundError:
            return
        os.symlink(aim, name, dir_fd=there)
        os.chown(name, self._owner.uid, self._owner.gid, dir_fd=there, follow_symlinks=False)

    def _file(self, name: str, here: int, there: int) -> None:
        """Without `with`: this is the hot path."""
        try:
            reading = os.open(name, _READ, dir_fd=here)
        except FileNotFoundError:
            return
        try:
            writing = os.open(name, _WRITE, 0o600, dir_fd=there)
            try:
                _give(writing, self._owner)
                self._fill(reading, writing)
            finally:
                os.close(writing)
        finally:
            os.close(reading)


def _give(file: int, owner: Identity) -> None:
    if not owner.is_ours:
        os.fchown(file, owner.uid, owner.gid)


@contextmanager
def _opened(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)
