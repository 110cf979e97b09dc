"""Lock files that show whether a supervisor or a control process runs in a home.

The lock belongs to an open file, so the kernel releases it however the process ends. The file contains the holder's
pid, which error messages name.
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
    """Return the open, locked file, or None when another process holds it for longer than `timeout` seconds."""
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
    """Write our pid into a lock that we hold; the process that started us may have acquired it."""
    os.pwrite(fd, f"{os.getpid():>10}\n".encode(), 0)  # a fixed width, so that a reader never sees half a pid


def read_holder_pid(path: Path) -> int | None:
    """Return the pid of the process that holds the lock, or None when it is free."""
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
