"""A file of a size: with room on the disk taken for all of it, or with none."""

import ctypes
import errno
import os
from pathlib import Path

from bough.engine.local.progress import Progress

_PIECE = 1024**3  # one call each, so that the progress is seen
_ZEROS = bytes(4 * 1024**2)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def allocate(file: Path, size: int, *, thin: bool, progress: Progress) -> None:
    """A new file. Whatever is in it reads as zeros; unless it is thin, writing into it cannot fail for want of room."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if thin:
            os.ftruncate(descriptor, size)
        else:
            _reserve_all(descriptor, size, progress)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reserve_all(descriptor: int, size: int, progress: Progress) -> None:
    try:
        for start in range(0, size, _PIECE):
            progress("taking room on the disk", start, size)
            _reserve(descriptor, start, min(_PIECE, size - start))
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        _write_zeros(descriptor, size, progress)
    progress("taking room on the disk", size, size)


def _reserve(descriptor: int, start: int, length: int) -> None:
    """Not `posix_fallocate`, which writes for minutes without a word where the file system cannot do it."""
    if _libc.fallocate(descriptor, 0, start, length) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _write_zeros(descriptor: int, size: int, progress: Progress) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    written = 0
    while written < size:
        written += os.write(descriptor, _ZEROS[: size - written])
        progress("taking room on the disk", written, size)
