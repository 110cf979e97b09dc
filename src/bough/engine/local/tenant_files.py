"""Opens, reads, lists and writes files in folders that a tenant can write.

The tenant may replace anything by a link, a pipe, a folder or a huge file at any moment. So names are looked up in open
folders, no link is followed, only regular files are read, and every read and every listing has a limit.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from bough.engine.local.tenant_file_checks import (
    MAX_FOLDER_ENTRIES,
    MAX_TREE_ENTRIES,
    TenantFileError,
    TooManyEntries,
    check_regular_file,
    to_tenant_file_error,
)

BLOCK_BYTES = 512  # the unit of st_blocks

_OWN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FOLDER_FLAGS = _OWN_FOLDER_FLAGS | os.O_NOFOLLOW
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

FolderRef = Path | int  # the path of a folder that no tenant can replace, or an open folder


@contextmanager
def open_folder(path: Path | str, within: int | None = None) -> Iterator[int]:
    """Open a folder of the platform, or a relative path within an open folder, no part of which may be a link."""
    descriptor = os.open(path, _OWN_FOLDER_FLAGS) if within is None else _open_path(within, str(path), FOLDER_FLAGS)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_tenant_folder(path: Path) -> Iterator[int]:
    """Open a folder that a tenant may have replaced by a link. Its parent is the platform's, or may not be a link."""
    with open_folder(path.parent) as parent, open_folder(path.name, parent) as descriptor:
        yield descriptor


@contextmanager
def open_regular_file(name: str, within: FolderRef) -> Iterator[int]:
    """Open the regular file with that relative path."""
    descriptor = open_file_descriptor(name, within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_file_descriptor(name: str, within: FolderRef) -> int:
    descriptor = _open_path(within, name, READ_FLAGS)
    try:
        check_regular_file(os.fstat(descriptor), name)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_file(name: str, within: FolderRef, limit: int) -> bytes:
    """Read all of a file that has at most `limit` bytes."""
    file = _open_path(within, name, READ_FLAGS)
    try:
        check_regular_file(os.fstat(file), name, limit)
        return _read(file, limit)
    finally:
        os.close(file)


def read_head(name: str, within: FolderRef, count: int) -> bytes:
    """Read at most `count` bytes of a file of any length."""
    with open_regular_file(name, within) as file:
        return _read(file, count)


def stat_file(name: str, within: FolderRef) -> os.stat_result:
    """Return the status of the relative path; a link is not followed."""
    parent, _, last = name.rpartition("/")
    if not parent:
        path, folder = _at(within, last)
        return os.stat(path, dir_fd=folder, follow_symlinks=False)
    descriptor = _open_path(within, parent, FOLDER_FLAGS)
    try:
        return os.stat(last, dir_fd=descriptor, follow_symlinks=False)
    finally:
        os.close(descriptor)


def entry_exists(name: str, within: FolderRef) -> bool:
    """Return whether the relative path exists, be it as a link."""
    try:
        stat_file(name, within)
    except (FileNotFoundError, TenantFileError):
        return False
    return True


def scan_entries(folder: int, limit: int = MAX_TREE_ENTRIES) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of an open folder. Raises TooManyEntries above the limit."""
    with os.scandir(folder) as entries:
        for count, entry in enumerate(entries):
            if count == limit:
                raise TooManyEntries(limit)
            yield entry


def list_names(folder: int, limit: int = MAX_FOLDER_ENTRIES) -> list[str]:
    with os.scandir(folder) as entries:
        names = [entry.name for entry in islice(entries, limit + 1)]
    if len(names) > limit:
        raise TooManyEntries(limit)
    return names


def write_file(name: str, within: FolderRef, content: bytes, owner: tuple[int, int] | None = None) -> None:
    """Replace the file of that name by one rename, and give it to the owner (uid and gid)."""
    temporary = f".{name}.new"
    unlink(temporary, within)
    path, folder = _at(within, temporary)
    descriptor = os.open(path, CREATE_FLAGS, 0o600, dir_fd=folder)
    try:
        if owner is not None:
            os.fchown(descriptor, *owner)
        _write(descriptor, content)
    finally:
        os.close(descriptor)
    rename(temporary, name, within)


def create_file(name: str, within: FolderRef, owner: tuple[int, int] | None = None) -> None:
    """Create an empty file; an existing entry of that name stays."""
    path, folder = _at(within, name)
    with suppress(FileExistsError):
        descriptor = os.open(path, CREATE_FLAGS, 0o600, dir_fd=folder)
        try:
            if owner is not None:
                os.fchown(descriptor, *owner)
        finally:
            os.close(descriptor)


def unlink(name: str, within: FolderRef) -> None:
    """Remove the file, link or pipe of that name, if any. Raises TenantFileError for a folder."""
    path, folder = _at(within, name)
    with suppress(FileNotFoundError), _translate_type_errors(name):
        os.unlink(path, dir_fd=folder)


def rename(old: str, new: str, within: FolderRef) -> None:
    """Rename an entry of the folder; both names are relative to it."""
    (source, folder), (target, _) = _at(within, old), _at(within, new)
    with _translate_type_errors(new):
        os.rename(source, target, src_dir_fd=folder, dst_dir_fd=folder)


def _open_path(within: FolderRef, name: str, flags: int) -> int:
    """Open part by part. The system call openat2 could do it at once, but many containers forbid it."""
    *parents, last = name.split("/")
    current: int | None = None
    try:
        for part in parents:
            subfolder = _open(*_at(within if current is None else current, part), FOLDER_FLAGS, name)
            if current is not None:
                os.close(current)
            current = subfolder
        return _open(*_at(within if current is None else current, last), flags, name)
    finally:
        if current is not None:
            os.close(current)


def _open(path: Path | str, folder: int | None, flags: int, name: str) -> int:
    """Called often while a server starts, so it avoids a context manager."""
    try:
        return os.open(path, flags, dir_fd=folder)
    except OSError as error:
        raise to_tenant_file_error(error, name) from error


@contextmanager
def _translate_type_errors(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise to_tenant_file_error(error, name) from error


def descriptor_path(folder: int, name: str) -> Path:
    """Return a path for calls without `dir_fd`: an entry of an open folder."""
    return Path(f"/proc/self/fd/{folder}/{name}")


def _at(within: FolderRef, name: str) -> tuple[Path | str, int | None]:
    """Return the path and `dir_fd` arguments of a system call."""
    if name in ("", ".", ".."):
        raise TenantFileError("The branch's files cannot be used: a name points outside its folder.", errno.EINVAL)
    return (name, within) if isinstance(within, int) else (within / name, None)


def _read(file: int, count: int) -> bytes:
    """Read up to `count` bytes, so that a file that grows meanwhile cannot exceed the limit."""
    parts: list[bytes] = []
    while count and (part := os.read(file, count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _write(file: int, content: bytes) -> None:
    while content:
        content = content[os.write(file, content) :]
