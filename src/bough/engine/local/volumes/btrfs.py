"""Volumes that are btrfs subvolumes: a clone is one snapshot, whatever it holds.

The snapshot is atomic, so it has all that the source had; what a clone must not have is removed from
it afterwards. An ordinary user may make subvolumes, and removes them like folders.
"""

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from threading import Event

from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_files import (
    MOST_NAMES,
    TooManyNames,
    check_depth,
    entries,
    file_status,
    names,
    opened_folder,
)
from bough.engine.local.tenant_trees import remove_name, remove_tree
from bough.engine.local.volumes.copying import copy_file
from bough.engine.local.volumes.ioctls import create_subvolume, destroy_subvolume, snapshot
from bough.engine.local.volumes.reflink import share, share_tree
from bough.postgres.data_folder import LEFT_EMPTY, SEARCHED, is_left_out

_NO_SUBVOLUME = (errno.EINVAL, errno.EXDEV, errno.ENOTTY, errno.ENOENT, errno.ENOTDIR)
_NOT_AT_ONCE = (errno.EPERM, errno.EACCES, errno.ENOTEMPTY, errno.EBUSY)


class BtrfsDriver:
    name = "btrfs"

    def make_folder(self, path: Path) -> None:
        with opened_folder(path.parent) as parent:
            create_subvolume(parent, path.name)
        path.chmod(0o700)

    def clone(self, source: Path, target: Path, owner: Identity) -> None:
        if not self._snapshot(source, target, owner):
            self.make_folder(target)
            share_tree(source, target, owner)

    def clone_file(self, source: Path, target: Path, owner: Identity) -> None:
        copy_file(source, target, owner, share)

    def remove(self, path: Path, hurry: Event | None = None) -> None:
        _destroy(path / "data")
        _destroy(path)
        remove_tree(path)

    def _snapshot(self, source: Path, target: Path, owner: Identity) -> bool:
        """Whether the source was a subvolume of the same file system."""
        with opened_folder(source) as here, opened_folder(target.parent) as parent:
            try:
                snapshot(here, parent, target.name)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EXDEV):
                    raise
                return False
        with opened_folder(target) as made:
            seen = os.fstat(made)
            os.fchmod(made, 0o700)
            _tidy(made)
            if (seen.st_uid, seen.st_gid) != (owner.uid, owner.gid):
                _Chown(owner).folder(made)
        return True


def _tidy(data: int) -> None:
    """Only names are read, and only where they may matter: a clone of the same owner costs little more."""
    at_the_top = frozenset(names(data))
    _remove_left_out(data, "", at_the_top)
    for name in LEFT_EMPTY & at_the_top:
        _empty(name, data)
    for name in SEARCHED & at_the_top:
        with opened_folder(name, data) as folder:
            _remove_left_out(folder, f"{name}/", names(folder))
            for below in _folders(folder):
                with opened_folder(below, folder) as deeper:
                    _remove_left_out(deeper, f"{name}/{below}/", names(deeper, MOST_NAMES))


def _remove_left_out(folder: int, prefix: str, found: Iterable[str]) -> None:
    for name in found:
        if is_left_out(prefix + name):
            remove_name(name, folder)


def _empty(name: str, data: int) -> None:
    """What is no folder goes."""
    if not stat.S_ISDIR(file_status(name, data).st_mode):
        remove_name(name, data)
        return
    with opened_folder(name, data) as folder:
        for one in names(folder, MOST_NAMES):
            remove_name(one, folder)


class _Chown:
    """Of a whole tree; no link is followed."""

    def __init__(self, owner: Identity) -> None:
        self._owner = owner
        self._names = MOST_NAMES  # that there may still be

    def folder(self, folder: int, depth: int = 0) -> None:
        check_depth(depth)
        os.fchown(folder, self._owner.uid, self._owner.gid)
        for entry in entries(folder):
            self._names -= 1
            if self._names < 0:
                raise TooManyNames(MOST_NAMES)
            if entry.is_dir(follow_symlinks=False):
                with opened_folder(entry.name, folder) as below:
                    self.folder(below, depth + 1)
            else:
                os.chown(entry.name, self._owner.uid, self._owner.gid, dir_fd=folder, follow_symlinks=False)


def _folders(folder: int) -> list[str]:
    return [entry.name for entry in entries(folder) if entry.is_dir(follow_symlinks=False)]


def _destroy(path: Path) -> None:
    """Gone at once if it is a subvolume and that is allowed; else it is left to be removed as a folder."""
    try:
        with opened_folder(path.parent) as parent:
            destroy_subvolume(parent, path.name)
    except OSError as error:
        if error.errno not in _NO_SUBVOLUME + _NOT_AT_ONCE:
            raise
