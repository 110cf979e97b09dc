"""Inspect processes through /proc, and kill them without hitting a process that reuses the pid."""

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from bough import clock
from bough.engine.port import EngineError

_KILL_TIMEOUT = 10.0
_MAX_ARGUMENTS_BYTES = 8192  # the program, -D and a path come first
_EMPTY_SCANS = 3  # scans in a row that must find no process


def list_children(pid: int) -> list[int]:
    """Return its child processes. Some kernels do not provide them."""
    pids: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                pids += map(int, (thread / "children").read_text().split())
    return pids


def read_arguments(pid: int) -> bytes:
    """Return the beginning of its command line, which a tenant's process may set to megabytes of text."""
    with Path(f"/proc/{pid}/cmdline").open("rb", buffering=0) as file:
        return file.read(_MAX_ARGUMENTS_BYTES) or b""


def kill(pid: int, is_target: Callable[[int], bool]) -> None:
    """Kill the process if `is_target` confirms it after the pidfd is open, when the pid can no longer be reused."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if is_target(pid):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(pidfd)


def list_pids_of_user(uid: int) -> Iterator[int]:
    """Return the live processes that can act as the user, newest first: those are the most likely to exist still."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    yield from (pid for pid in sorted(pids, reverse=True) if runs_as_user(pid, uid))


def runs_as_user(pid: int, uid: int) -> bool:
    """Check its real, effective, saved and file system uid."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return False
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return str(uid) in fields["Uid"].split() and fields["State"].split()[0] not in ("Z", "X")


def kill_all_of_user(uid: int) -> None:
    """Kill all processes of the user. Requires root.

    A process that forks and exits faster than a scan could escape. Therefore several scans must find nothing; and with
    control groups, such a process could no longer fork once its compute was cleaned up.
    """
    deadline = clock.monotonic() + _KILL_TIMEOUT
    empty_scans = 0
    while empty_scans < _EMPTY_SCANS:
        empty_scans += 1
        for pid in list_pids_of_user(uid):
            empty_scans = 0
            with suppress(OSError):  # prevent it from forking
                resource.prlimit(pid, resource.RLIMIT_NPROC, (0, 0))
            kill(pid, lambda pid: runs_as_user(pid, uid))
        if clock.monotonic() > deadline:
            raise EngineError(f"The processes of the user id {uid} do not end.")
        time.sleep(0 if empty_scans else 0.005)
