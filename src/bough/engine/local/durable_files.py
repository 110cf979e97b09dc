"""Writes files and folders so that they are complete or absent after any crash."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bough.engine.local.tenant_files import open_regular_file, scan_entries

_BTRFS_MAGIC = 0x9123683E

_libc = ctypes.CDLL(None, use_errno=True)


def write_atomically(path: Path, text: str, *, mode: int = 0o600, gid: int = -1, durable: bool = False) -> None:
    """Replace the file by one rename. Without `durable`, it may be the old file, or empty, after a power failure."""
    temporary = path.with_name(f".{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "w") as file:
        os.fchown(descriptor, -1, gid)
        os.fchmod(descriptor, mode)
        file.write(text)
        if durable:
            file.flush()
            os.fsync(descriptor)
    temporary.rename(path)
    if durable:
        sync_folder(path.parent)


def publish_folder(staged: Path, path: Path) -> None:
    """Rename a complete folder to its final path. Its contents must be synced before."""
    staged.rename(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Sync the names in a folder.

    On btrfs the whole file system is synced: after a power failure, btrfs could not always replay the log that it
    writes for the sync of a single folder, and then it cannot be mounted (seen with Linux 6.18).
    """
    with _open_folder(path) as descriptor:
        sync_folder_fd(descriptor)


def sync_folder_fd(descriptor: int) -> None:
    """Sync the names in an open folder."""
    if is_btrfs(Path(f"/proc/self/fd/{descriptor}")):
        sync_filesystem_fd(descriptor)
    else:
        os.fsync(descriptor)


def sync_files(folder: Path) -> None:
    """Sync the files of one folder and the folder itself. A tenant may own it, but its path is the platform's."""
    with _open_folder(folder) as descriptor:
        for entry in scan_entries(descriptor):
            if entry.is_file(follow_symlinks=False):
                with open_regular_file(entry.name, descriptor) as file:
                    os.fsync(file)
        sync_folder_fd(descriptor)


def sync_filesystem(path: Path) -> None:
    """Sync everything that was written to the file system of `path`: one call for thousands of files."""
    with _open_folder(path) as descriptor:
        sync_filesystem_fd(descriptor)


def sync_filesystem_fd(descriptor: int) -> None:
    """Sync the file system of an open file."""
    if _libc.syncfs(descriptor) != 0:
        error_number = ctypes.get_errno()
        raise OSError(error_number, os.strerror(error_number))


def is_btrfs(folder: Path) -> bool:
    buffer = (ctypes.c_long * 64)()  # larger than any struct statfs, whose first word is the type
    if _libc.statfs(os.fsencode(folder), ctypes.byref(buffer)) != 0:
        error_number = ctypes.get_errno()
        raise OSError(error_number, os.strerror(error_number), str(folder))
    return buffer[0] == _BTRFS_MAGIC


@contextmanager
def _open_folder(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
