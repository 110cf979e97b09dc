"""Files that are whole or absent, whatever crashes, and makers that do not collide."""

import ctypes
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bough.engine.local.tenant_files import open_regular_file, scan_entries

_BTRFS_MAGIC = 0x9123683E

_libc = ctypes.CDLL(None, use_errno=True)


def write_atomically(path: Path, text: str, *, mode: int = 0o600, gid: int = -1, durable: bool = False) -> None:
    """Replace the file in one move. Without `durable` a power cut may bring the old text back, or none."""
    fresh = path.with_name(f".{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "w") as file:
        os.fchown(descriptor, -1, gid)
        os.fchmod(descriptor, mode)
        file.write(text)
        if durable:
            file.flush()
            os.fsync(descriptor)
    fresh.rename(path)
    if durable:
        sync_folder(path.parent)


def publish_folder(staged: Path, path: Path) -> None:
    """A finished folder appears under its own name; what is in it must have been synced before."""
    staged.rename(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """The names in it are on disk.

    On btrfs with all the rest: what it notes for the sync of one folder it could not always read again after
    a power cut, and then it cannot be mounted (seen with Linux 6.18).
    """
    with _opened(path) as descriptor:
        sync_folder_fd(descriptor)


def sync_folder_fd(descriptor: int) -> None:
    """The same, of an open one."""
    if is_btrfs(Path(f"/proc/self/fd/{descriptor}")):
        sync_filesystem_fd(descriptor)
    else:
        os.fsync(descriptor)


def sync_files(folder: Path) -> None:
    """The files of one folder and the folder itself are on disk. The folder may be a tenant's, its name is ours."""
    with _opened(folder) as here:
        for entry in scan_entries(here):
            if entry.is_file(follow_symlinks=False):
                with open_regular_file(entry.name, here) as file:
                    os.fsync(file)
        sync_folder_fd(here)


def sync_filesystem(path: Path) -> None:
    """Everything written to the file system of `path` is on disk: one call for thousands of files."""
    with _opened(path) as descriptor:
        sync_filesystem_fd(descriptor)


def sync_filesystem_fd(descriptor: int) -> None:
    """The same, of an open file."""
    if _libc.syncfs(descriptor) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def is_btrfs(folder: Path) -> bool:
    told = (ctypes.c_long * 64)()  # larger than any struct statfs, whose first word is the file system's kind
    if _libc.statfs(os.fsencode(folder), ctypes.byref(told)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(folder))
    return told[0] == _BTRFS_MAGIC


@contextmanager
def hold_file_lock(path: Path) -> Iterator[None]:
    """One holder at a time, over threads and processes; a holder that dies lets go."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
