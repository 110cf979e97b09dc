"""A lock file that is exclusive across threads and processes."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def hold_file_lock(path: Path) -> Iterator[None]:
    """Wait for the lock and hold it during the block; the kernel releases it if the process dies."""
    descriptor = os.open(path, _FLAGS, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def try_file_lock(path: Path) -> Iterator[bool]:
    """Hold the lock during the block if nobody else holds it. Yield whether it is held."""
    descriptor = os.open(path, _FLAGS, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
