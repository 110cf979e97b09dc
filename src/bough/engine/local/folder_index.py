"""An in-memory index of the files of a folder, which reads again only files that changed.

Adding, replacing by a rename and removing a file all change the modification time of its folder, so one `stat` shows
whether anything changed, in whichever process. A restart rebuilds the index from the files.
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")
FileVersion = tuple[int, int]  # inode and modification time, of a file or folder

# The clock of a file system advances in ticks of some milliseconds: a folder that changed in the tick in which it was
# read may have changed again since, with the same modification time.
_TICK_NS = 50_000_000


class FolderVersion:
    """Tells whether a folder may have changed since it was last read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._version: FileVersion | None = None
        self._next: FileVersion | None = None

    def has_changed(self) -> bool:
        """Call this before reading the folder, and `mark_read` afterwards."""
        before = time.time_ns()
        current = read_version(self._folder)
        if current is not None and current == self._version:
            return False
        self._next = current if current is not None and before - current[1] > _TICK_NS else None
        return True

    def mark_read(self) -> None:
        """Record that the folder was read in the state that `has_changed` saw.

        A state so recent that it could still change unnoticed is not trusted.
        """
        self._version = self._next

    def mark_written(self) -> None:
        """Record the caller's own change of the folder."""
        self._version = read_version(self._folder)


class FolderIndex(Generic[T]):
    """Not thread-safe: the owner holds a lock."""

    def __init__(self, folder: Path, read: Callable[[Path], T | None]) -> None:
        self._folder = folder
        self._read = read
        self._folder_version = FolderVersion(folder)
        self._versions: dict[str, FileVersion] = {}
        self._entries: dict[str, T] = {}

    @property
    def entries(self) -> Mapping[str, T]:
        """Entries by file name. Files for which `read` returns None are left out."""
        return self._entries

    def refresh(self) -> bool:
        """Read files that are new or were replaced; returns False if the folder has not changed."""
        if not self._folder_version.has_changed():
            return False
        present = dict(_files(self._folder))
        for removed in self._versions.keys() - present.keys():
            self._remove(removed)
        for name, version in present.items():
            if self._versions.get(name) != version:
                self._set(name, version, self._read(self._folder / name))
        self._folder_version.mark_read()
        return True

    def put(self, name: str, value: T | None) -> None:
        """Record that the owner has written this file, or removed it: then `value` is None."""
        version = read_version(self._folder / name)
        if value is None or version is None:
            self._remove(name)
        else:
            self._set(name, version, value)
        self._folder_version.mark_written()

    def _set(self, name: str, version: FileVersion, value: T | None) -> None:
        self._versions[name] = version
        if value is None:
            self._entries.pop(name, None)
        else:
            self._entries[name] = value

    def _remove(self, name: str) -> None:
        self._versions.pop(name, None)
        self._entries.pop(name, None)


def read_version(path: Path) -> FileVersion | None:
    """Return None if the file does not exist."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_ino, status.st_mtime_ns


def _files(folder: Path) -> list[tuple[str, FileVersion]]:
    files = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # replaced or removed meanwhile
                files.append((entry.name, (status.st_ino, status.st_mtime_ns)))
    except FileNotFoundError:
        return []
    return files
