"""Volumes that are btrfs subvolumes: a clone is one snapshot, whatever its size.

A snapshot is atomic and holds everything the source has; files that a clone must not have are removed from it
afterwards. An ordinary user may create subvolumes, and removes them like folders.
"""

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from threading import Event

from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_file_checks import MAX_TREE_ENTRIES, TooManyEntries, check_depth
from bough.engine.local.tenant_files import list_names, open_folder, scan_entries, stat_file
from bough.engine.local.tenant_trees import remove_entry, remove_tree
from bough.engine.local.volumes.file_copy import copy_file
from bough.engine.local.volumes.ioctls import create_snapshot, create_subvolume, destroy_subvolume
from bough.engine.local.volumes.reflink import reflink_or_copy, reflink_tree
from bough.postgres.clone_filter import EMPTIED_FOLDERS, SEARCHED_FOLDERS, is_excluded

_NOT_A_SUBVOLUME = (errno.EINVAL, errno.EXDEV, errno.ENOTTY, errno.ENOENT, errno.ENOTDIR)
_NOT_ALLOWED = (errno.EPERM, errno.EACCES, errno.ENOTEMPTY, errno.EBUSY)


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

    def remove(self, path: Path, stop_pacing: Event | None = None) -> None:
        _destroy(path / "data")
        _destroy(path)
        remove_tree(path)

    def _snapshot(self, source: Path, target: Path, owner: Identity) -> bool:
        """Return False if the source is not a subvolume of the same file system."""
        with open_folder(source) as source_folder, open_folder(target.parent) as parent:
            try:
                create_snapshot(source_folder, parent, target.name)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EXDEV):
                    raise
                return False
        with open_folder(target) as snapshot:
            status = os.fstat(snapshot)
            os.fchmod(snapshot, 0o700)
            _remove_excluded(snapshot)
            if (status.st_uid, status.st_gid) != (owner.uid, owner.gid):
                _OwnerChange(owner).apply_to_folder(snapshot)
        return True


def _remove_excluded(data: int) -> None:
    """Read names only where excluded files may be, so that a clone costs little more than a snapshot."""
    top_level = frozenset(list_names(data))
    _remove_excluded_names(data, "", top_level)
    for name in EMPTIED_FOLDERS & top_level:
        _empty(name, data)
    for name in SEARCHED_FOLDERS & top_level:
        with open_folder(name, data) as folder:
            _remove_excluded_names(folder, f"{name}/", list_names(folder))
            for below in _folders(folder):
                with open_folder(below, folder) as deeper:
                    _remove_excluded_names(deeper, f"{name}/{below}/", list_names(deeper, MAX_TREE_ENTRIES))


def _remove_excluded_names(folder: int, prefix: str, names: Iterable[str]) -> None:
    for name in names:
        if is_excluded(prefix + name):
            remove_entry(name, folder)


def _empty(name: str, data: int) -> None:
    """Remove what is in the folder. Anything else of that name is removed itself."""
    if not stat.S_ISDIR(stat_file(name, data).st_mode):
        remove_entry(name, data)
        return
    with open_folder(name, data) as folder:
        for entry in list_names(folder, MAX_TREE_ENTRIES):
            remove_entry(entry, folder)


class _OwnerChange:
    """Changes the owner of a whole tree; no link is followed."""

    def __init__(self, owner: Identity) -> None:
        self._owner = owner
        self._remaining = MAX_TREE_ENTRIES

    def apply_to_folder(self, folder: int, depth: int = 0) -> None:
        check_depth(depth)
        os.fchown(folder, self._owner.uid, self._owner.gid)
        for entry in scan_entries(folder):
            self._remaining -= 1
            if self._remaining < 0:
                raise TooManyEntries(MAX_TREE_ENTRIES)
            if entry.is_dir(follow_symlinks=False):
                with open_folder(entry.name, folder) as below:
                    self.apply_to_folder(below, depth + 1)
            else:
                os.chown(entry.name, self._owner.uid, self._owner.gid, dir_fd=folder, follow_symlinks=False)


def _folders(folder: int) -> list[str]:
    return [entry.name for entry in scan_entries(folder) if entry.is_dir(follow_symlinks=False)]


def _destroy(path: Path) -> None:
    """Destroy the subvolume at once if it is one and that is allowed; otherwise leave it for removal as a folder."""
    try:
        with open_folder(path.parent) as parent:
            destroy_subvolume(parent, path.name)
    except OSError as error:
        if error.errno not in _NOT_A_SUBVOLUME + _NOT_ALLOWED:
            raise
