"""Copies folders exactly to another file system: owners, modes, times and links.

Every name is looked up in an open folder and no link is followed, because tenants own the files.
"""

import os
import stat
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from bough.engine.local.progress import Progress
from bough.engine.local.tenant_file_checks import check_depth
from bough.engine.local.tenant_files import BLOCK_BYTES, CREATE_FLAGS, open_folder, open_regular_file, scan_entries
from bough.engine.local.volumes.file_copy import copy_bytes
from bough.engine.local.volumes.port import Driver

_STAGE = "moving volumes and templates"


class FolderMigration:
    """Copies the named folders of one folder to another. The source stays as it is."""

    def __init__(self, source: Path, target: Path, names: Sequence[str], progress: Progress) -> None:
        self._source = source
        self._target = target
        self._names = [name for name in names if (source / name).is_dir()]
        self._progress = progress
        self._done = 0

    @cached_property
    def total_bytes(self) -> int:
        """Bytes on disk."""
        with open_folder(self._source) as source:
            return sum(_measure_folder(name, source) for name in self._names)

    def run(self, driver: Driver) -> None:
        """The driver creates the data directories, so that it can clone them later."""
        if not self._names:
            return
        self._report_progress(0)
        with open_folder(self._source) as source, open_folder(self._target) as target:
            for name in self._names:
                self._copy_folder(name, source, target)
                self._create_data_folders(name, driver)
                self._copy_contents(name, source, target)
        self._progress(_STAGE, self.total_bytes, self.total_bytes)

    def _create_data_folders(self, name: str, driver: Driver) -> None:
        """A template is a data directory; a volume contains one."""
        folders = [folder for folder in (self._source / name).iterdir() if folder.is_dir() and not folder.is_symlink()]
        for copy, folder in ((self._target / name / folder.name, folder) for folder in folders):
            if name == "templates":
                driver.make_folder(copy)
            elif (folder / "data").is_dir():
                copy.mkdir(mode=0o700)
                driver.make_folder(copy / "data")

    def _copy_contents(self, name: str, source_parent: int, target_parent: int, depth: int = 0) -> None:
        check_depth(depth)
        with open_folder(name, source_parent) as source, open_folder(name, target_parent) as target:
            for entry in scan_entries(source):
                if entry.is_dir(follow_symlinks=False):
                    self._copy_folder(entry.name, source, target)
                    self._copy_contents(entry.name, source, target, depth + 1)
                elif entry.is_symlink():
                    self._copy_link(entry.name, source, target)
                elif entry.is_file(follow_symlinks=False):
                    self._copy_file(entry.name, source, target)

    def _copy_folder(self, name: str, source: int, target: int) -> None:
        try:
            os.mkdir(name, 0o700, dir_fd=target)
        except FileExistsError:  # a data directory that the driver created
            pass
        status = os.stat(name, dir_fd=source, follow_symlinks=False)
        with open_folder(name, target) as created:
            _copy_owner_and_mode(created, status)

    def _copy_link(self, name: str, source: int, target: int) -> None:
        status = os.stat(name, dir_fd=source, follow_symlinks=False)
        os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
        os.chown(name, status.st_uid, status.st_gid, dir_fd=target, follow_symlinks=False)

    def _copy_file(self, name: str, source: int, target: int) -> None:
        with open_regular_file(name, source) as reading:
            status = os.fstat(reading)
            writing = os.open(name, CREATE_FLAGS, 0o600, dir_fd=target)
            try:
                copy_bytes(reading, writing, status)
                _copy_owner_and_mode(writing, status)
                os.utime(writing, ns=(status.st_atime_ns, status.st_mtime_ns))
            finally:
                os.close(writing)
        self._report_progress(status.st_blocks * BLOCK_BYTES)

    def _report_progress(self, copied: int) -> None:
        self._done += copied
        self._progress(_STAGE, self._done, max(self._done, self.total_bytes))


def _measure_folder(name: str, within: int, depth: int = 0) -> int:
    """Return the bytes on disk of a folder with everything in it."""
    check_depth(depth)
    total = 0
    with open_folder(name, within) as folder:
        for entry in scan_entries(folder):
            total += entry.stat(follow_symlinks=False).st_blocks * BLOCK_BYTES
            if entry.is_dir(follow_symlinks=False):
                total += _measure_folder(entry.name, folder, depth + 1)
    return total


def _copy_owner_and_mode(file: int, status: os.stat_result) -> None:
    """Set the owner first, because a change of owner clears some mode bits."""
    os.fchown(file, status.st_uid, status.st_gid)
    os.fchmod(file, stat.S_IMODE(status.st_mode))
