"""A mount namespace for computes, in which nothing can be executed where a tenant can write.

A thread of ours enters it, and whatever it starts has it too. The machine's own mounts stay as they are: the namespace
follows them where they are shared, and never the other way round.
"""

import ctypes
import os
import re
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

from bough.config import Settings

# Where every user may write. `/run` has the sockets of computes, and locks that anybody may take.
_WORLD_WRITABLE = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run")  # noqa: S108

# linux/sched.h, linux/mount.h
_NEW_MOUNT_NAMESPACE = 0x00020000
_NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _WITH_ALL_BELOW, _FOLLOWING = 2, 4, 8, 32, 4096, 16384, 1 << 19
_KEPT = {"ro": 1, "nosuid": _NOSUID, "nodev": _NODEV, "noexec": _NOEXEC, "noatime": 1024, "nodiratime": 2048}
_LATER = 2  # MNT_DETACH: when nobody uses it any more
_MOUNT_SETATTR = 442  # the same number on every architecture
_HERE, _RECURSIVELY = -100, 0x8000
_FORBIDDEN = _NOSUID | _NODEV | _NOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class MountNamespace:
    noexec_folders: tuple[Path, ...]  # nothing in them and below can be executed
    executable_folder: Path  # but for what is in here

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        return cls((settings.home, settings.sockets, *map(Path, _WORLD_WRITABLE)), settings.cache)

    def enter(self) -> None:
        """For the calling thread and all it starts. An OSError where the kernel or the container does not let us."""
        _checked(_libc.unshare(_NEW_MOUNT_NAMESPACE))
        _mount(None, "/", _FOLLOWING | _WITH_ALL_BELOW)
        self._unmount_other_images()
        for folder in _outermost(tuple(folder for folder in self.noexec_folders if folder.is_dir())):
            _close(folder)
        if self.executable_folder.is_dir() and not is_executable(self.executable_folder):
            _open(os.path.realpath(self.executable_folder))

    def _unmount_other_images(self) -> None:
        """Those of other homes: they would stay in use for as long as the process lives, whoever unmounts them.

        Where mounts are shared, as systemd makes them, they go by themselves, and nothing has to be done here.
        """
        images = _mounts(of=" /dev/loop")
        needed = (
            [os.path.realpath(path) for path in (*self.noexec_folders[:2], self.executable_folder)] if images else []
        )
        for each in images:
            if not each.follows and not any(_is_on_the_way(each.path, path) for path in needed):
                _libc.umount2(os.fsencode(each.path), _LATER)  # no matter if it is gone already


@dataclass(frozen=True, slots=True)
class _Mount:
    path: str
    flags: int
    follows: bool  # another of the machine, with which it goes


def _is_on_the_way(mount: str, path: str) -> bool:
    """Whether one is inside the other."""
    return os.path.commonpath((mount, path)) in (mount, path)


@cache  # each start would pay for it
def _outermost(folders: tuple[Path, ...]) -> list[str]:
    """Those that are not inside another, by their true paths."""
    found = {Path(os.path.realpath(folder)) for folder in folders}
    return sorted(str(folder) for folder in found if found.isdisjoint(folder.parents))


def is_executable(path: Path) -> bool:
    """Whether files there can be executed, as the calling thread sees it."""
    return not os.statvfs(path).f_flag & os.ST_NOEXEC


def _close(folder: str) -> None:
    _mount(folder, folder, _BIND | _WITH_ALL_BELOW)
    try:
        _set_attributes(folder, _FORBIDDEN, 0)
    except OSError:  # before Linux 5.12, or where a filter does not know the call
        for each in _mounts(below=folder):
            _mount(None, each.path, _REMOUNT | _BIND | each.flags | _FORBIDDEN)


def _open(folder: str) -> None:
    _mount(folder, folder, _BIND)
    try:
        _set_attributes(folder, _NOSUID | _NODEV, _NOEXEC)
    except OSError:
        for each in _mounts(below=folder):
            if each.path == folder:
                _mount(None, folder, _REMOUNT | _BIND | each.flags & ~_NOEXEC)


def _mounts(*, of: str = "", below: str = "/") -> list[_Mount]:
    """Of the calling thread: those whose line has the word, at the folder and below."""
    with open("/proc/thread-self/mountinfo", errors="surrogateescape") as file:  # noqa: PTH123  a start waits for it
        text = file.read()
    lines = text.splitlines() if of in text else []
    found = [_read(line.split(" ")) for line in lines if of in line]
    return [each for each in found if os.path.commonpath((each.path, below)) == below]


def _read(words: list[str]) -> _Mount:
    path = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), words[4])  # spaces and their like
    flags = sum(_KEPT.get(option, 0) for option in words[5].split(","))
    return _Mount(path, flags, follows=any(word.startswith("master:") for word in words[6 : words.index("-")]))


def _mount(source: str | None, target: str, flags: int) -> None:
    given = None if source is None else os.fsencode(source)
    _checked(_libc.mount(given, os.fsencode(target), None, ctypes.c_ulong(flags), None))


def _set_attributes(folder: str, forbidden: int, allowed: int) -> None:
    attributes = struct.pack("=QQQQ", forbidden, allowed, 0, 0)
    _checked(_libc.syscall(_MOUNT_SETATTR, _HERE, os.fsencode(folder), _RECURSIVELY, attributes, len(attributes)))


def _checked(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
