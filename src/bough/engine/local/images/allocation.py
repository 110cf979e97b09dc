"""Creates a file of a given size, and reserves disk space for ranges of it or returns it."""

import ctypes
import errno
import os
from pathlib import Path

from bough.engine.local.progress import Progress

_CHUNK_BYTES = 1024**3  # reserved per call, so that progress is visible
_ZEROS = bytes(4 * 1024**2)

_KEEP_SIZE, _PUNCH_HOLE = 0x1, 0x2  # linux/falloc.h

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def allocate(file: Path, size: int, *, thin: bool, progress: Progress) -> None:
    """Create a file that reads as zeros. Unless it is thin, writing to it cannot fail for lack of disk space."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if thin:
            os.ftruncate(descriptor, size)
        else:
            _reserve_all(descriptor, size, progress)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def reserve(descriptor: int, start: int, length: int) -> None:
    """Reserve disk space, after which writing to the range cannot fail for lack of it. Data stays as it is.

    Not `posix_fallocate`, which writes zeros for minutes without progress where the file system cannot reserve.
    """
    _fallocate(descriptor, 0, start, length)


def release(descriptor: int, start: int, length: int) -> None:
    """Return the disk space of the range, which then reads as zeros."""
    _fallocate(descriptor, _PUNCH_HOLE | _KEEP_SIZE, start, length)


def _reserve_all(descriptor: int, size: int, progress: Progress) -> None:
    try:
        for start in range(0, size, _CHUNK_BYTES):
            progress("reserving disk space", start, size)
            reserve(descriptor, start, min(_CHUNK_BYTES, size - start))
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        _write_zeros(descriptor, size, progress)
    progress("reserving disk space", size, size)


def _fallocate(descriptor: int, mode: int, start: int, length: int) -> None:
    if _libc.fallocate(descriptor, mode, start, length) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _write_zeros(descriptor: int, size: int, progress: Progress) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    written = 0
    while written < size:
        written += os.write(descriptor, _ZEROS[: size - written])
        progress("reserving disk space", written, size)
