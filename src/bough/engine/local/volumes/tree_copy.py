"""Copies a data directory in one walk over the tree, with any way to fill its files.

A new volume has over a thousand small files, so the cost is in names, not in bytes. Every name is looked up in an open
folder and no link is followed: the folder's owner may replace anything at any moment and must not make the platform
read or write elsewhere.
"""

import os
from pathlib import Path
from stat import S_ISREG

from bough import clock
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_file_checks import (
    MAX_FILE_BYTES,
    MAX_TREE_ENTRIES,
    CopyTimeout,
    TooManyEntries,
    check_depth,
    check_regular_file,
    to_tenant_file_error,
)
from bough.engine.local.tenant_files import CREATE_FLAGS, FOLDER_FLAGS, READ_FLAGS, open_folder
from bough.engine.local.volumes.file_copy import FileCopier, change_owner
from bough.postgres.clone_filter import EMPTIED_FOLDERS, is_emptied, is_excluded

MAX_COPY_SECONDS = 6 * 3600.0  # so that no tenant can block a thread forever


def copy_tree(source: Path, target: Path, owner: Identity, copy_content: FileCopier) -> None:
    """Copy to the empty folder `target` what a clone of the data directory `source` has."""
    with open_folder(source) as source_folder, open_folder(target) as target_folder:
        _TreeCopier(owner, copy_content).copy_folder(source_folder, target_folder, "", 0)
        change_owner(target_folder, owner)


def chown_tree(folder: Path, owner: Identity) -> None:
    for parent, _, names in os.walk(folder):
        os.chown(parent, owner.uid, owner.gid)
        for name in names:
            os.chown(Path(parent) / name, owner.uid, owner.gid, follow_symlinks=False)


class _TreeCopier:
    def __init__(self, owner: Identity, copy_content: FileCopier) -> None:
        self._owner = owner
        self._changes_owner = not owner.is_current_user
        self._copy_content = copy_content
        self._remaining = MAX_TREE_ENTRIES
        self._deadline = clock.monotonic() + MAX_COPY_SECONDS

    def copy_folder(self, source: int, target: int, prefix: str, depth: int) -> None:
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
                        self._copy_file(relative, name, source, target)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                elif entry.is_symlink() and not is_emptied(relative):
                    self._copy_link(name, source, target)
                if self._remaining < 0:
                    raise TooManyEntries(MAX_TREE_ENTRIES)
                if clock.monotonic() > self._deadline:
                    raise CopyTimeout(MAX_COPY_SECONDS)
        for name in folders:
            self._copy_subfolder(name, source, target, prefix, depth + 1)

    def _copy_subfolder(self, name: str, source_parent: int, target_parent: int, prefix: str, depth: int) -> None:
        check_depth(depth)
        os.mkdir(name, 0o700, dir_fd=target_parent)
        with open_folder(name, target_parent) as target:
            change_owner(target, self._owner)
            if is_emptied(prefix + name):
                return
            try:
                source = os.open(name, FOLDER_FLAGS, dir_fd=source_parent)
            except FileNotFoundError:
                return
            except OSError as error:
                raise to_tenant_file_error(error, name) from error
            try:
                self.copy_folder(source, target, f"{prefix}{name}/", depth)
            finally:
                os.close(source)

    def _copy_link(self, name: str, source: int, target: int) -> None:
        try:
            link_target = os.readlink(name, dir_fd=source)
        except FileNotFoundError:
            return
        os.symlink(link_target, name, dir_fd=target)
        os.chown(name, self._owner.uid, self._owner.gid, dir_fd=target, follow_symlinks=False)

    def _copy_file(self, relative: str, name: str, source: int, target: int) -> None:
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
