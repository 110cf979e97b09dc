"""A mount namespace for computes, in which nothing can be executed where a tenant can write.

A thread enters it, and the processes it starts inherit it. Mounts propagate from the machine to the namespace where
they are shared, and never from the namespace to the machine.
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

# Where every user may write. `/run` contains the sockets of computes and lock files.
_WORLD_WRITABLE = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run")  # noqa: S108

# linux/sched.h, linux/mount.h
_NEW_MOUNT_NAMESPACE = 0x00020000
_NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC, _SLAVE = 2, 4, 8, 32, 4096, 16384, 1 << 19
_MOUNT_FLAGS = {"ro": 1, "nosuid": _NOSUID, "nodev": _NODEV, "noexec": _NOEXEC, "noatime": 1024, "nodiratime": 2048}
_DETACH = 2  # MNT_DETACH: when it is no longer in use
_MOUNT_SETATTR = 442  # the same number on every architecture
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_RESTRICTIONS = _NOSUID | _NODEV | _NOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class MountNamespace:
    noexec_folders: tuple[Path, ...]  # nothing below them can be executed …
    executable_folder: Path  # … except below this one

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        return cls((settings.home, settings.sockets, *map(Path, _WORLD_WRITABLE)), settings.cache)

    def enter(self) -> None:
        """Enter it with the calling thread. Raise OSError where the kernel or the container does not permit it."""
        _check(_libc.unshare(_NEW_MOUNT_NAMESPACE))
        _mount(None, "/", _SLAVE | _REC)
        self._unmount_other_images()
        for folder in _outermost(tuple(folder for folder in self.noexec_folders if folder.is_dir())):
            _restrict(folder)
        if self.executable_folder.is_dir() and not is_executable(self.executable_folder):
            _allow_execution(os.path.realpath(self.executable_folder))

    def _unmount_other_images(self) -> None:
        """Unmount the images of other homes, which the process would otherwise keep in use as long as it runs.

        Shared mounts, which are the default with systemd, are unmounted in the namespace when they are on the machine.
        """
        images = _read_mounts(containing=" /dev/loop")
        needed = (
            [os.path.realpath(path) for path in (*self.noexec_folders[:2], self.executable_folder)] if images else []
        )
        for each in images:
            if not each.is_slave and not any(_is_nested(each.path, path) for path in needed):
                _libc.umount2(os.fsencode(each.path), _DETACH)  # it may already be unmounted


@dataclass(frozen=True, slots=True)
class _Mount:
    path: str
    flags: int
    is_slave: bool  # it is unmounted together with a mount of the machine


def _is_nested(mount: str, path: str) -> bool:
    """Return whether one is inside the other."""
    return os.path.commonpath((mount, path)) in (mount, path)


@cache  # saves time at each start
def _outermost(folders: tuple[Path, ...]) -> list[str]:
    """Return the resolved paths of the folders that are not inside another."""
    resolved = {Path(os.path.realpath(folder)) for folder in folders}
    return sorted(str(folder) for folder in resolved if resolved.isdisjoint(folder.parents))


def is_executable(path: Path) -> bool:
    """Return whether files there can be executed, in the namespace of the calling thread."""
    return not os.statvfs(path).f_flag & os.ST_NOEXEC


def _restrict(folder: str) -> None:
    _mount(folder, folder, _BIND | _REC)
    try:
        _set_attributes(folder, _RESTRICTIONS, 0)
    except OSError:  # before Linux 5.12, or where a seccomp filter does not know the system call
        for each in _read_mounts(below=folder):
            _mount(None, each.path, _REMOUNT | _BIND | each.flags | _RESTRICTIONS)


def _allow_execution(folder: str) -> None:
    _mount(folder, folder, _BIND)
    try:
        _set_attributes(folder, _NOSUID | _NODEV, _NOEXEC)
    except OSError:
        for each in _read_mounts(below=folder):
            if each.path == folder:
                _mount(None, folder, _REMOUNT | _BIND | each.flags & ~_NOEXEC)


def _read_mounts(*, containing: str = "", below: str = "/") -> list[_Mount]:
    """Return the mounts of the calling thread at or below a folder whose mountinfo line contains a text."""
    with open("/proc/thread-self/mountinfo", errors="surrogateescape") as file:  # noqa: PTH123  faster than Path, and a start waits for it
        text = file.read()
    lines = text.splitlines() if containing in text else []
    mounts = [_parse_mount(line.split(" ")) for line in lines if containing in line]
    return [each for each in mounts if os.path.commonpath((each.path, below)) == below]


def _parse_mount(words: list[str]) -> _Mount:
    path = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), words[4])  # escaped characters such as spaces
    flags = sum(_MOUNT_FLAGS.get(option, 0) for option in words[5].split(","))
    return _Mount(path, flags, is_slave=any(word.startswith("master:") for word in words[6 : words.index("-")]))


def _mount(source: str | None, target: str, flags: int) -> None:
    encoded = None if source is None else os.fsencode(source)
    _check(_libc.mount(encoded, os.fsencode(target), None, ctypes.c_ulong(flags), None))


def _set_attributes(folder: str, set_flags: int, clear_flags: int) -> None:
    attributes = struct.pack("=QQQQ", set_flags, clear_flags, 0, 0)
    _check(_libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(folder), _AT_RECURSIVE, attributes, len(attributes)))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
