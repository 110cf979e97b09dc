"""Limits on a tenant's files, and the errors for files that exceed them or are not what Postgres creates."""

import errno
import os
import stat

MAX_FILE_BYTES = 1024**3  # Postgres never creates a larger file
MAX_DEPTH = 32  # of nested folders; Postgres nests five deep, and each level keeps a file open
MAX_TREE_ENTRIES = 1_000_000
MAX_FOLDER_ENTRIES = 400_000  # of one folder, when the list is kept in memory: 1.5 TB of WAL
_MAX_SHOWN_CHARACTERS = 80  # of a name in a message
# Errors of a lookup that finds a link or a file of another type.
_WRONG_TYPE_ERRORS = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.ENODEV, errno.ENOTEMPTY)


class TenantFileError(OSError):
    """A file of a tenant is not what Postgres creates. A retry finds the same."""

    def __init__(self, message: str, error_number: int = errno.EPERM) -> None:
        super().__init__(error_number, message)

    @property
    def message(self) -> str:
        return str(self.strerror)


class CopyTimeout(TenantFileError):
    """A copy took too long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The branch's files cannot be used: copying them takes longer than {seconds / 3600:g} hours.")


class TooManyEntries(TenantFileError):
    """A folder or a tree has more entries than the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The branch's files cannot be used: there are more than {limit}.", errno.EMLINK)


def printable_name(name: str) -> str:
    """Return a tenant's file name for a message: short, and without control characters."""
    text = ascii(name)[1:-1]
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}..."


def check_regular_file(status: os.stat_result, name: str, limit: int | None = None) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise TenantFileError(f"The branch's files cannot be used: {printable_name(name)} is not a regular file.")
    if limit is not None and status.st_size > limit:
        raise TenantFileError(
            f"The branch's files cannot be used: {printable_name(name)} has {status.st_size} bytes, more than "
            f"the {limit} that Postgres writes.",
            errno.EFBIG,
        )


def check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise TenantFileError(f"The branch's files cannot be used: its folders are nested {depth} deep.", errno.ELOOP)


def to_tenant_file_error(error: OSError, name: str) -> OSError:
    """Return a TenantFileError if the lookup found a link or a file of another type; otherwise the error itself."""
    if error.errno not in _WRONG_TYPE_ERRORS:
        return error
    message = (
        f"The branch's files cannot be used: {printable_name(name)} is a link or not of the type that Postgres uses."
    )
    return TenantFileError(message, error.errno)
