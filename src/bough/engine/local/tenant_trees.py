"""Removes a folder whatever its owner did to it: it may be in use still, hold millions of names or be very deep.

One folder is open at a time and few names are held at a time. Each folder is taken from its owner before it is
emptied, so that nobody can add to it; and on the way up it is checked that `..` is the folder one came from.
"""

import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bough.engine.local.tenant_files import FOLDER_FLAGS, open_folder

_BATCH = 10_000  # names of folders that are held for one folder
_ROUNDS = 1000  # in which somebody may add to a folder that is being emptied; only a process of our own user can
_IS_FOLDER = (errno.EISDIR, errno.EPERM)
_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)


def remove_tree(path: Path) -> None:
    """Nothing has the name any more, which is in a folder of ours; no matter if nothing had it."""
    with suppress(FileNotFoundError), open_folder(path.parent) as above:
        remove_entry(path.name, above)


def remove_entry(name: str, within: int) -> None:
    """The same of a name in an open folder. A link is removed, never followed."""
    for _ in range(_ROUNDS):
        try:
            os.unlink(name, dir_fd=within)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in _IS_FOLDER:
                raise
        else:
            return
        with suppress(FileNotFoundError, NotADirectoryError):  # it is another thing by now
            emptying = _Emptying(name, within)
            try:
                emptying.run(name)
            finally:
                os.close(emptying.here)
            if _is_removed(name, within):
                return
    raise OSError(errno.ENOTEMPTY, "A folder is being filled while it is removed")


@dataclass(slots=True)
class _Level:
    """A folder that is being emptied."""

    name: str  # that it has in the folder above
    identity: tuple[int, int]  # device and inode
    below: list[str]  # folders in it that are to be removed


class _Emptying:
    """Of one folder, down to any depth."""

    def __init__(self, name: str, within: int) -> None:
        self.here = os.open(name, FOLDER_FLAGS, dir_fd=within)
        self._levels: list[_Level] = []
        self._rounds = 0

    def run(self, name: str) -> None:
        self._levels.append(_entered(name, self.here))
        while True:
            level = self._levels[-1]
            if level.below:
                self._go_down(level.below.pop())
            elif len(self._levels) == 1:
                return
            else:
                self._go_up()

    def _go_down(self, name: str) -> None:
        with suppress(FileNotFoundError, NotADirectoryError):  # it is another thing by now: the next sweep sees it
            below = os.open(name, FOLDER_FLAGS, dir_fd=self.here)
            os.close(self.here)
            self.here = below
            self._levels.append(_entered(name, below))

    def _go_up(self) -> None:
        left = self._levels.pop()
        above = os.open("..", FOLDER_FLAGS, dir_fd=self.here)
        os.close(self.here)
        self.here = above
        # Somebody who moved the folder meanwhile must not lead us elsewhere.
        if _identity(os.fstat(above)) != self._levels[-1].identity:
            raise OSError(errno.ESTALE, "A folder was moved while it was removed")
        if not _is_removed(left.name, above):
            self._levels[-1].below.append(left.name)
            self._rounds += 1
        if self._rounds > _ROUNDS:
            raise OSError(errno.ENOTEMPTY, "A folder is being filled while it is removed")


def _entered(name: str, here: int) -> _Level:
    """The owner cannot add to it from now on, and it holds nothing but folders."""
    seen = os.fstat(here)
    if seen.st_uid != os.geteuid():
        with suppress(PermissionError):  # as an ordinary user one removes what one can
            os.fchown(here, os.geteuid(), os.getegid())
            os.fchmod(here, 0o700)
    return _Level(name, _identity(seen), _sweep(here))


def _identity(seen: os.stat_result) -> tuple[int, int]:
    return seen.st_dev, seen.st_ino


def _sweep(here: int) -> list[str]:
    """What is no folder is removed; some of the folders, as long as there are any."""
    folders: list[str] = []
    with os.scandir(here) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                try:
                    os.unlink(entry.name, dir_fd=here)
                except (FileNotFoundError, IsADirectoryError):
                    continue
            elif len(folders) < _BATCH:
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
