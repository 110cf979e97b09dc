"""Simulates a power cut: data that had not reached the disk is lost, and all processes are killed.

XFS can drop what it has not written (`XFS_IOC_GOINGDOWN`). Any other file system is put into a file on XFS, of which a
reflink copy is what its disk had at that moment.
"""

import fcntl
import os
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from bough.config import Settings
from support.folders import release_uids
from support.loop_images import (
    FileSystem,
    create_image,
    list_mounts,
    mount_image,
    mount_loop_image,
    wait_until_detached,
)

_GOING_DOWN, _NO_LOG_FLUSH = 0x8004587D, 2  # fs/xfs/libxfs/xfs_fs.h
_UNMOUNT_SECONDS = 10.0


class Disk(Protocol):
    folder: Path  # where its file system is mounted

    def cut_power(self) -> None:
        """From now on nothing reaches the disk."""

    def remount(self) -> None:
        """Mount the file system as the disk has it. No process may use it."""


class XfsDisk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def cut_power(self) -> None:
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, _GOING_DOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def remount(self) -> None:
        image = self.folder.parent / "image"
        _unmount(self.folder)
        wait_until_detached(image)  # a file system that is still in use elsewhere stays shut down
        mount_image("xfs", image, self.folder)


class CopiedDisk:
    def __init__(self, fs: FileSystem, image: Path) -> None:
        self.folder = image.parent / "mounted"
        self._fs = fs
        self._image = image

    def cut_power(self) -> None:
        subprocess.run(["cp", "--reflink=always", self._image, self._image.with_suffix(".cut")], check=True)

    def remount(self) -> None:
        _unmount(self.folder)
        wait_until_detached(self._image)
        self._image.with_suffix(".cut").rename(self._image)
        mount_image(self._fs, self._image, self.folder)


@contextmanager
def create_disk(fs: FileSystem, size_mb: int = 2048) -> Iterator[Disk]:
    with mount_loop_image("xfs", 2 * size_mb) as folder:
        if fs == "xfs":
            yield XfsDisk(folder)
            return
        image = folder / "disk.img"
        create_image(fs, size_mb, image)
        disk = CopiedDisk(fs, image)
        disk.folder.mkdir(mode=0o711)
        mount_image(fs, image, disk.folder)
        disk.folder.chmod(0o711)
        try:
            yield disk
        finally:
            _unmount(disk.folder)


def simulate_power_cut(disk: Disk, settings: Settings) -> None:
    """Restart the whole machine of a home. The caller must have ended its control."""
    kill_processes_in(disk.folder)
    unmount_all_in(settings.home)
    shutil.rmtree(settings.sockets, ignore_errors=True)  # in memory, like the uid claims of the host
    release_uids(disk.folder)
    disk.remount()


def unmount_all_in(folder: Path) -> None:
    for mount_point in list_mounts(folder):
        _unmount(mount_point)


def kill_processes_in(folder: Path) -> None:
    while pids := list(_list_processes_in(folder)):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _list_processes_in(folder: Path) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and (entry / "cwd").readlink().is_relative_to(folder):
                yield int(entry.name)


def _unmount(mount_point: Path) -> None:
    """A command that the killed control had started may keep the file system busy until it ends."""
    deadline = time.monotonic() + _UNMOUNT_SECONDS
    while (
        done := subprocess.run(["umount", mount_point], check=False, capture_output=True, text=True)
    ).returncode != 0:
        assert time.monotonic() < deadline, done.stderr
        time.sleep(0.05)
