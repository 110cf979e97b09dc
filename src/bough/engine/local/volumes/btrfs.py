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
    MAX_TREE_ENTRIES,
    TooManyEntries,
    check_depth,
    list_names,
    open_folder,
    scan_entries,
    stat_file,
)
from bough.engine.local.tenant_trees import remove_entry, remove_tree
from bough.engine.local.volumes.ioctls import create_snapshot, create_subvolume, destroy_subvolume
from bough.engine.local.volumes.reflink import reflink_or_copy, reflink_tree
from bough.engine.local.volumes.tree_copy import copy_file
from bough.postgres.clone_filter import EMPTIED_FOLDERS, SEARCHED_FOLDERS, is_excluded

_NO_SUBVOLUME = (errno.EINVAL, errno.EXDEV, errno.ENOTTY, errno.ENOENT, errno.ENOTDIR)
_NOT_AT_ONCE = (errno.EPERM, errno.EACCES, errno.ENOTEMPTY, errno.EBUSY)


class BtrfsDriver:
    name = "btrfs"

    def make_folder(self, path: Path) -> None:
        with open_folder(path.parent) as parent:
            create_subvolume(parent, path.name)
        path.chmod(0o700)

    def clone(self, source: Path, target: Path, owner: Identity) -> None:
        if not self._snapshot(source, target, owner):
            self.make_folder(target)
            reflink_tree(source, target, owner)

    def clone_file(self, source: Path, target: Path, owner: Identity) -> None:
        copy_file(source, target, owner, reflink_or_copy)

    def remove(self, path: Path, hurry: Event | None = None) -> None:
        _destroy(path / "data")
        _destroy(path)
        remove_tree(path)

    def _snapshot(self, source: Path, target: Path, owner: Identity) -> bool:
        """Whether the source was a subvolume of the same file system."""
        with open_folder(source) as here, open_folder(target.parent) as parent:
            try:
                create_snapshot(here, parent, target.name)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EXDEV):
                    raise
                return False
        with open_folder(target) as made:
            seen = os.fstat(made)
            os.fchmod(made, 0o700)
            _tidy(made)
            if (seen.st_uid, seen.st_gid) != (owner.uid, owner.gid):
                _Chown(owner).folder(made)
        return True


def _tidy(data: int) -> None:
    """Only names are read, and only where they may matter: a clone of the same owner costs little more."""
    at_the_top = frozenset(list_names(data))
    _remove_left_out(data, "", at_the_top)
    for name in EMPTIED_FOLDERS & at_the_top:
        _empty(name, data)
    for name in SEARCHED_FOLDERS & at_the_top:
        with open_folder(name, data) as folder:
            _remove_left_out(folder, f"{name}/", list_names(folder))
            for below in _folders(folder):
                with open_folder(below, folder) as deeper:
                    _remove_left_out(deeper, f"{name}/{below}/", list_names(deeper, MAX_TREE_ENTRIES))


def _remove_left_out(folder: int, prefix: str, found: Iterable[str]) -> None:
    for name in found:
        if is_excluded(prefix + name):
            remove_entry(name, folder)


def _empty(name: str, data: int) -> None:
    """What is no folder goes."""
    if not stat.S_ISDIR(stat_file(name, data).st_mode):
        remove_entry(name, data)
        return
    with open_folder(name, data) as folder:
        for one in list_names(folder, MAX_TREE_ENTRIES):
            remove_entry(one, folder)


class _Chown:
    """Of a whole tree; no link is followed."""

    def __init__(self, owner: Identity) -> None:
        self._owner = owner
        self._names = MAX_TREE_ENTRIES  # that there may still be

    def folder(self, folder: int, depth: int = 0) -> None:
        check_depth(depth)
        os.fchown(folder, self._owner.uid, self._owner.gid)
        for entry in scan_entries(folder):
            self._names -= 1
            if self._names < 0:
                raise TooManyEntries(MAX_TREE_ENTRIES)
            if entry.is_dir(follow_symlinks=False):
                with open_folder(entry.name, folder) as below:
                    self.folder(below, depth + 1)
            else:
                os.chown(entry.name, self._owner.uid, self._owner.gid, dir_fd=folder, follow_symlinks=False)


def _folders(folder: int) -> list[str]:
    return [entry.name for entry in scan_entries(folder) if entry.is_dir(follow_symlinks=False)]


def _destroy(path: Path) -> None:
    """Gone at once if it is a subvolume and that is allowed; else it is left to be removed as a folder."""
    try:
        with open_folder(path.parent) as parent:
            destroy_subvolume(parent, path.name)
    except OSError as error:
        if error.errno not in _NO_SUBVOLUME + _NOT_AT_ONCE:
            raise
