"""An exact copy of folders onto another file system: owners, modes and times, and links as links.

Every name is looked up in an open folder and no link is followed, as tenants own what is copied.
"""

import os
import stat
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from bough.engine.local.progress import Progress
from bough.engine.local.tenant_files import CREATE_FLAGS, check_depth, open_folder, open_regular_file, scan_entries
from bough.engine.local.volumes.port import Driver
from bough.engine.local.volumes.tree_copy import copy_bytes

_STAGE = "moving volumes and templates"


class FolderMigration:
    """`NAME` of each name becomes the same in another folder. What was there stays as it is."""

    def __init__(self, source: Path, target: Path, names: Sequence[str], progress: Progress) -> None:
        self._source = source
        self._target = target
        self._names = [name for name in names if (source / name).is_dir()]
        self._progress = progress
        self._done = 0

    @cached_property
    def total_bytes(self) -> int:
        """Bytes on the disk."""
        with open_folder(self._source) as here:
            return sum(_bytes(name, here) for name in self._names)

    def run(self, driver: Driver) -> None:
        """Data folders are made by the driver, which may want to clone them in its own way."""
        if not self._names:
            return
        self._report_progress(0)
        with open_folder(self._source) as here, open_folder(self._target) as there:
            for name in self._names:
                self._folder(name, here, there)
                self._data_folders(name, driver)
                self._inside(name, here, there)
        self._progress(_STAGE, self.total_bytes, self.total_bytes)

    def _data_folders(self, name: str, driver: Driver) -> None:
        """Templates are data folders; a volume has one beside other things."""
        places = [place for place in (self._source / name).iterdir() if place.is_dir() and not place.is_symlink()]
        for copy, place in ((self._target / name / place.name, place) for place in places):
            if name == "templates":
                driver.make_folder(copy)
            elif (place / "data").is_dir():
                copy.mkdir(mode=0o700)
                driver.make_folder(copy / "data")

    def _inside(self, name: str, here: int, there: int, depth: int = 0) -> None:
        check_depth(depth)
        with open_folder(name, here) as source, open_folder(name, there) as target:
            for entry in scan_entries(source):
                if entry.is_dir(follow_symlinks=False):
                    self._folder(entry.name, source, target)
                    self._inside(entry.name, source, target, depth + 1)
                elif entry.is_symlink():
                    self._link(entry.name, source, target)
                elif entry.is_file(follow_symlinks=False):
                    self._file(entry.name, source, target)

    def _folder(self, name: str, here: int, there: int) -> None:
        try:
            os.mkdir(name, 0o700, dir_fd=there)
        except FileExistsError:  # a data folder
            pass
        seen = os.stat(name, dir_fd=here, follow_symlinks=False)
        with open_folder(name, there) as made:
            _make_alike(made, seen)

    def _link(self, name: str, here: int, there: int) -> None:
        seen = os.stat(name, dir_fd=here, follow_symlinks=False)
        os.symlink(os.readlink(name, dir_fd=here), name, dir_fd=there)
        os.chown(name, seen.st_uid, seen.st_gid, dir_fd=there, follow_symlinks=False)

    def _file(self, name: str, here: int, there: int) -> None:
        with open_regular_file(name, here) as reading:
            seen = os.fstat(reading)
            writing = os.open(name, CREATE_FLAGS, 0o600, dir_fd=there)
            try:
                copy_bytes(reading, writing, seen)
                _make_alike(writing, seen)
                os.utime(writing, ns=(seen.st_atime_ns, seen.st_mtime_ns))
            finally:
                os.close(writing)
        self._report_progress(seen.st_blocks * 512)

    def _report_progress(self, more: int) -> None:
        self._done += more
        self._progress(_STAGE, self._done, max(self._done, self.total_bytes))


def _bytes(name: str, within: int, depth: int = 0) -> int:
    """What a folder and all in it take on the disk."""
    check_depth(depth)
    total = 0
    with open_folder(name, within) as folder:
        for entry in scan_entries(folder):
            total += entry.stat(follow_symlinks=False).st_blocks * 512
            if entry.is_dir(follow_symlinks=False):
                total += _bytes(entry.name, folder, depth + 1)
    return total


def _make_alike(file: int, seen: os.stat_result) -> None:
    """The owner first: a change of owner takes some modes away."""
    os.fchown(file, seen.st_uid, seen.st_gid)
    os.fchmod(file, stat.S_IMODE(seen.st_mode))
