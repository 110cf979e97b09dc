"""What the files of a folder say, kept in memory and read again only where something changed.

Adding, replacing by a rename and removing a file all change the modification time of its folder, so one `stat` shows
that nothing happened, whichever process would have done it. A restart rebuilds the index from the files.
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")
_Mark = tuple[int, int]  # of a file or folder: inode and modification time

# A file system's clock advances in ticks of some milliseconds: a folder that changed in the same tick as it was read
# may have changed once more since, with the same modification time.
_TICK_NS = 50_000_000


class FolderVersion:
    """Tells whether a folder may have changed since it was last read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark: _Mark | None = None
        self._next: _Mark | None = None

    def has_changed(self) -> bool:
        """Ask before reading the folder, and call `settle` after it."""
        before = time.time_ns()
        now = read_version(self._folder)
        if now is not None and now == self._mark:
            return False
        self._next = now if now is not None and before - now[1] > _TICK_NS else None
        return True

    def mark_read(self) -> None:
        """The folder was read: nothing changed until its state is another than when it was asked for.

        A state so young that it could still change unseen is not trusted.
        """
        self._mark = self._next

    def mark_written(self) -> None:
        """The caller has just changed the folder, and knows what it changed."""
        self._mark = read_version(self._folder)


class FolderIndex(Generic[T]):
    """Not for several threads at once: the owner holds a lock."""

    def __init__(self, folder: Path, read: Callable[[Path], T | None]) -> None:
        self._folder = folder
        self._read = read
        self._state = FolderVersion(folder)
        self._marks: dict[str, _Mark] = {}
        self._entries: dict[str, T] = {}

    @property
    def entries(self) -> Mapping[str, T]:
        """By the file's name. Files that `read` makes nothing of are left out."""
        return self._entries

    def refresh(self) -> bool:
        """Read the files that are new or were replaced; True when the folder may have changed."""
        if not self._state.has_changed():
            return False
        present = dict(_files(self._folder))
        for gone in self._marks.keys() - present.keys():
            self._forget(gone)
        for name, mark in present.items():
            if self._marks.get(name) != mark:
                self._set(name, mark, self._read(self._folder / name))
        self._state.mark_read()
        return True

    def put(self, name: str, value: T | None) -> None:
        """The owner has just written this file, or removed it: None."""
        mark = read_version(self._folder / name)
        if value is None or mark is None:
            self._forget(name)
        else:
            self._set(name, mark, value)
        self._state.mark_written()

    def _set(self, name: str, mark: _Mark, value: T | None) -> None:
        self._marks[name] = mark
        if value is None:
            self._entries.pop(name, None)
        else:
            self._entries[name] = value

    def _forget(self, name: str) -> None:
        self._marks.pop(name, None)
        self._entries.pop(name, None)


def read_version(path: Path) -> _Mark | None:
    try:
        seen = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return seen.st_ino, seen.st_mtime_ns


def _files(folder: Path) -> list[tuple[str, _Mark]]:
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    seen = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # it was replaced or removed meanwhile
                found.append((entry.name, (seen.st_ino, seen.st_mtime_ns)))
    except FileNotFoundError:
        return []
    return found
