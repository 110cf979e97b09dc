"""Removes a folder that a tenant owns, which may be in use, very deep or hold millions of entries.

Only one folder is open and few names are in memory at a time. The owner of each folder is changed before it is emptied,
so that the tenant cannot add to it. On the way up, `..` is checked to be the folder that the walk came from.
"""

import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bough.engine.local.tenant_files import FOLDER_FLAGS, open_folder

_MAX_PENDING_FOLDERS = 10_000  # names kept in memory per folder
_MAX_ROUNDS = 1000  # of emptying a folder to which a process of the platform's user adds entries
_IS_FOLDER = (errno.EISDIR, errno.EPERM)
_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)


def remove_tree(path: Path) -> None:
    """Remove whatever has that path, if anything; its parent folder is the platform's."""
    with suppress(FileNotFoundError), open_folder(path.parent) as parent:
        remove_entry(path.name, parent)


def remove_entry(name: str, within: int) -> None:
    """Remove whatever has that name in an open folder. A link is removed, never followed."""
    for _ in range(_MAX_ROUNDS):
        try:
            os.unlink(name, dir_fd=within)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in _IS_FOLDER:
                raise
        else:
            return
        with suppress(FileNotFoundError, NotADirectoryError):  # it was replaced meanwhile
            removal = _TreeRemoval(name, within)
            try:
                removal.run(name)
            finally:
                os.close(removal.folder)
            if _is_removed(name, within):
                return
    raise OSError(errno.ENOTEMPTY, "A folder is being filled while it is removed")


@dataclass(slots=True)
class _Level:
    """A folder that is being emptied."""

    name: str  # in its parent folder
    identity: tuple[int, int]  # device and inode
    pending: list[str]  # subfolders that are still to be removed


class _TreeRemoval:
    """Empties one folder of any depth."""

    def __init__(self, name: str, within: int) -> None:
        self.folder = os.open(name, FOLDER_FLAGS, dir_fd=within)
        self._levels: list[_Level] = []
        self._rounds = 0

    def run(self, name: str) -> None:
        self._levels.append(_enter(name, self.folder))
        while True:
            level = self._levels[-1]
            if level.pending:
                self._go_down(level.pending.pop())
            elif len(self._levels) == 1:
                return
            else:
                self._go_up()

    def _go_down(self, name: str) -> None:
        with suppress(FileNotFoundError, NotADirectoryError):  # it was replaced meanwhile: the next round removes it
            subfolder = os.open(name, FOLDER_FLAGS, dir_fd=self.folder)
            os.close(self.folder)
            self.folder = subfolder
            self._levels.append(_enter(name, subfolder))

    def _go_up(self) -> None:
        child = self._levels.pop()
        parent = os.open("..", FOLDER_FLAGS, dir_fd=self.folder)
        os.close(self.folder)
        self.folder = parent
        # A process that moves the folder meanwhile must not lead the walk elsewhere.
        if _identity(os.fstat(parent)) != self._levels[-1].identity:
            raise OSError(errno.ESTALE, "A folder was moved while it was removed")
        if not _is_removed(child.name, parent):
            self._levels[-1].pending.append(child.name)
            self._rounds += 1
        if self._rounds > _MAX_ROUNDS:
            raise OSError(errno.ENOTEMPTY, "A folder is being filled while it is removed")


def _enter(name: str, folder: int) -> _Level:
    """Take the folder from its owner and remove everything in it but folders."""
    status = os.fstat(folder)
    if status.st_uid != os.geteuid():
        with suppress(PermissionError):  # an ordinary user removes what it can
            os.fchown(folder, os.geteuid(), os.getegid())
            os.fchmod(folder, 0o700)
    return _Level(name, _identity(status), _remove_files(folder))


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _remove_files(folder: int) -> list[str]:
    """Remove everything but folders; returns some of the folders."""
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                try:
                    os.unlink(entry.name, dir_fd=folder)
                except (FileNotFoundError, IsADirectoryError):
                    continue
            elif len(folders) < _MAX_PENDING_FOLDERS:
                folders.append(entry.name)
    return folders


def _is_removed(name: str, within: int) -> bool:
    try:
        os.rmdir(name, dir_fd=within)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in _NOT_EMPTY:
            raise
        return False
    return True
