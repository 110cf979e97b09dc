"""Lock files: who holds a home, and whether a control process still lives in it.

The lock belongs to an open file, so it ends with its process, however that ends. The file's text
is the holder's pid, for the sentence that refuses a second one.
"""

import fcntl
import os
import time
from pathlib import Path

from bough import clock
from bough.config import Settings


def supervisor_lock_file(settings: Settings) -> Path:
    return settings.home / "supervisor.lock"


def control_lock_file(settings: Settings) -> Path:
    return settings.home / "control.lock"


def acquire(path: Path, timeout: float = 1.0) -> int | None:
    """The open, locked file, or None when another process keeps it for longer than `patience` seconds."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = clock.monotonic() + timeout
    while not _try_lock(fd, fcntl.LOCK_EX):
        if clock.monotonic() >= deadline:
            os.close(fd)
            return None
        time.sleep(0.02)
    write_pid(fd)
    return fd


def write_pid(fd: int) -> None:
    """Write our pid into the lock we hold; it may have been taken for us by the process that started us."""
    os.pwrite(fd, f"{os.getpid():>10}\n".encode(), 0)  # always as wide: a reader never meets half of it


def read_holder_pid(path: Path) -> int | None:
    """The pid of the process that holds the lock, or None when it is free."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if _try_lock(fd, fcntl.LOCK_SH):
            return None
        text = os.pread(fd, 32, 0).strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(fd)


def _try_lock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def release(fd: int) -> None:
    os.close(fd)
