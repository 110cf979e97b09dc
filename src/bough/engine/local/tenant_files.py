"""Opens, reads, lists and writes files in folders that a tenant can write.

The tenant may put a link, a pipe, a folder or a huge file in the place of anything, at any moment. So names are looked
up in open folders, no link is followed, only regular files are read, and each read and each list has a limit.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

MAX_FILE_BYTES = 1024**3  # that Postgres makes; a larger file is none of its
MAX_DEPTH = 32  # folders in one another; Postgres has five, and each level costs open files
MAX_TREE_ENTRIES = 1_000_000  # in one tree
MAX_FOLDER_ENTRIES = 400_000  # in one folder, where the list is kept in memory: the WAL of 1.5 TB

_OUR_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FOLDER_FLAGS = _OUR_FOLDER | os.O_NOFOLLOW
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST_SHOWN = 80  # characters of a name in a sentence
# A link or another kind of file stands where a file or a folder is looked up.
_OF_ANOTHER_KIND = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.ENODEV, errno.ENOTEMPTY)

FolderRef = Path | int  # a folder whose own name no tenant can change, or an open one


class TenantFileError(OSError):
    """What a tenant put into a folder is not what Postgres makes. Another try finds the same."""

    def __init__(self, message: str, error_number: int = errno.EPERM) -> None:
        super().__init__(error_number, message)

    @property
    def message(self) -> str:
        return str(self.strerror)


class CopyTimeout(TenantFileError):
    """A copy did not end in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The branch's files cannot be used: a copy takes longer than {seconds / 3600:g} hours.")


class TooManyEntries(TenantFileError):
    """A folder or a tree has more than we go through."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The branch's files cannot be used: there are more than {limit}.", errno.EMLINK)


def printable_name(name: str) -> str:
    """A tenant's name for a sentence: short, and without characters that a terminal obeys."""
    text = ascii(name)[1:-1]
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


@contextmanager
def open_folder(path: Path | str, within: int | None = None) -> Iterator[int]:
    """A folder of ours, or the one of that relative path within an open folder, where no part may be a link."""
    descriptor = os.open(path, _OUR_FOLDER) if within is None else _opened(within, str(path), FOLDER_FLAGS)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_tenant_folder(path: Path) -> Iterator[int]:
    """A folder whose name a tenant may have changed into a link, in a folder that is ours or may not be a link."""
    with open_folder(path.parent) as above, open_folder(path.name, above) as here:
        yield here


@contextmanager
def open_regular_file(name: str, within: FolderRef) -> Iterator[int]:
    """The regular file of that relative path."""
    descriptor = open_file_descriptor(name, within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_file_descriptor(name: str, within: FolderRef) -> int:
    descriptor = _opened(within, name, READ_FLAGS)
    try:
        check_regular_file(os.fstat(descriptor), name)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_regular_file(seen: os.stat_result, name: str, limit: int | None = None) -> None:
    if not stat.S_ISREG(seen.st_mode):
        raise TenantFileError(f"The branch's files cannot be used: {printable_name(name)} is not a regular file.")
    if limit is not None and seen.st_size > limit:
        raise TenantFileError(
            f"The branch's files cannot be used: {printable_name(name)} has {seen.st_size} bytes, more than "
            f"the {limit} "
            "that Postgres gives it.",
            errno.EFBIG,
        )


def read_file(name: str, within: FolderRef, limit: int) -> bytes:
    """All of a file that has at most `limit` bytes."""
    file = _opened(within, name, READ_FLAGS)
    try:
        check_regular_file(os.fstat(file), name, limit)
        return _read(file, limit)
    finally:
        os.close(file)


def read_head(name: str, within: FolderRef, count: int) -> bytes:
    """At most so many bytes of a file of any length."""
    with open_regular_file(name, within) as file:
        return _read(file, count)


def stat_file(name: str, within: FolderRef) -> os.stat_result:
    """Of whatever has that relative path; a link is not followed."""
    above, _, last = name.rpartition("/")
    if not above:
        path, folder = _at(within, last)
        return os.stat(path, dir_fd=folder, follow_symlinks=False)
    descriptor = _opened(within, above, FOLDER_FLAGS)
    try:
        return os.stat(last, dir_fd=descriptor, follow_symlinks=False)
    finally:
        os.close(descriptor)


def entry_exists(name: str, within: FolderRef) -> bool:
    """Whether anything has that relative path, if only a link."""
    try:
        stat_file(name, within)
    except (FileNotFoundError, TenantFileError):
        return False
    return True


def scan_entries(folder: int, limit: int = MAX_TREE_ENTRIES) -> Iterator[os.DirEntry[str]]:
    """What is in an open folder, one after the other. A TenantFileError when there is more than the limit."""
    with os.scandir(folder) as found:
        for count, entry in enumerate(found):
            if count == limit:
                raise TooManyEntries(limit)
            yield entry


def list_names(folder: int, limit: int = MAX_FOLDER_ENTRIES) -> list[str]:
    with os.scandir(folder) as found:
        listed = [entry.name for entry in islice(found, limit + 1)]
    if len(listed) > limit:
        raise TooManyEntries(limit)
    return listed


def check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise TenantFileError(
            f"The branch's files cannot be used: a data folder does not nest {depth} deep.", errno.ELOOP
        )


def write_file(name: str, within: FolderRef, content: bytes, owner: tuple[int, int] | None = None) -> None:
    """The file of that name, in the folder itself, is replaced in one move and given to the owner (uid and gid)."""
    fresh = f".{name}.new"
    unlink(fresh, within)
    path, folder = _at(within, fresh)
    descriptor = os.open(path, CREATE_FLAGS, 0o600, dir_fd=folder)
    try:
        if owner is not None:
            os.fchown(descriptor, *owner)
        _write(descriptor, content)
    finally:
        os.close(descriptor)
    rename(fresh, name, within)


def create_file(name: str, within: FolderRef, owner: tuple[int, int] | None = None) -> None:
    """An empty file; whatever has the name already stays."""
    path, folder = _at(within, name)
    with suppress(FileExistsError):
        descriptor = os.open(path, CREATE_FLAGS, 0o600, dir_fd=folder)
        try:
            if owner is not None:
                os.fchown(descriptor, *owner)
        finally:
            os.close(descriptor)


def unlink(name: str, within: FolderRef) -> None:
    """No file, link or pipe has the name any more; none need have had it. A TenantFileError when a folder has it."""
    path, folder = _at(within, name)
    with suppress(FileNotFoundError), _kinds_checked(name):
        os.unlink(path, dir_fd=folder)


def rename(old: str, new: str, within: FolderRef) -> None:
    """Both names are of the folder itself."""
    (source, folder), (target, _) = _at(within, old), _at(within, new)
    with _kinds_checked(new):
        os.rename(source, target, src_dir_fd=folder, dst_dir_fd=folder)


def _opened(within: FolderRef, name: str, flags: int) -> int:
    """Part by part. (The kernel's openat2 could do it in one call, but is refused in many containers.)"""
    *above, last = name.split("/")
    held: int | None = None
    try:
        for part in above:
            below = _open(*_at(within if held is None else held, part), FOLDER_FLAGS, name)
            if held is not None:
                os.close(held)
            held = below
        return _open(*_at(within if held is None else held, last), flags, name)
    finally:
        if held is not None:
            os.close(held)


def _open(path: Path | str, folder: int | None, flags: int, name: str) -> int:
    """Without `with`: servers that start are looked at often."""
    try:
        return os.open(path, flags, dir_fd=folder)
    except OSError as error:
        raise to_tenant_file_error(error, name) from error


@contextmanager
def _kinds_checked(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise to_tenant_file_error(error, name) from error


def to_tenant_file_error(error: OSError, name: str) -> OSError:
    """A TenantFileError when something of another kind stands where the name was looked up; else the error itself."""
    if error.errno not in _OF_ANOTHER_KIND:
        return error
    sentence = (
        f"The branch's files cannot be used: {printable_name(name)} is a link or not of the kind that Postgres makes."
    )
    return TenantFileError(sentence, error.errno)


def _at(within: FolderRef, name: str) -> tuple[Path | str, int | None]:
    """For a call that takes a path and the folder it is relative to."""
    if name in ("", ".", ".."):
        raise TenantFileError("The branch's files cannot be used: a name leads out of its folder.", errno.EINVAL)
    return (name, within) if isinstance(within, int) else (within / name, None)


def _read(file: int, count: int) -> bytes:
    """A file that grows meanwhile is read no further."""
    parts: list[bytes] = []
    while count and (part := os.read(file, count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _write(file: int, content: bytes) -> None:
    while content:
        content = content[os.write(file, content) :]
