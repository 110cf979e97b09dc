"""Processes of others: whose they are, what they forked, and how to end one without mistaking another for it."""

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from bough import clock
from bough.engine.port import EngineError

_ENDING_SECONDS = 10.0
_LONGEST_ARGUMENTS = 8192  # bytes: the program, -D and a path come first
_LOOKS = 3  # in a row that find nobody


def list_children(pid: int) -> list[int]:
    """What the process forked and has not lost yet; some kernels do not tell."""
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


def read_arguments(pid: int) -> bytes:
    """The beginning of what it was started with, or says of itself; a tenant's process may say megabytes."""
    with Path(f"/proc/{pid}/cmdline").open("rb", buffering=0) as file:
        return file.read(_LONGEST_ARGUMENTS) or b""


def kill(pid: int, is_target: Callable[[int], bool]) -> None:
    """`is_meant` is asked once the process is held, when its pid cannot come to mean another any more."""
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
    """Those that live and may act as the user; the youngest first, who have the most time left to be seen."""
    numbers = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    yield from (pid for pid in sorted(numbers, reverse=True) if runs_as_user(pid, uid))


def runs_as_user(pid: int, uid: int) -> bool:
    """By any of its ids: real, effective, saved or for files."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return False
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return str(uid) in fields["Uid"].split() and fields["State"].split()[0] not in ("Z", "X")


def kill_all_of_user(uid: int) -> None:
    """Nothing runs as the user any more. For root only.

    One that forks and ends faster than we look could escape: so we look more than once, and where there
    are control groups such a one could not fork any more when its compute was forgotten.
    """
    until = clock.monotonic() + _ENDING_SECONDS
    quiet = 0
    while quiet < _LOOKS:
        quiet += 1
        for pid in list_pids_of_user(uid):
            quiet = 0
            with suppress(OSError):  # so that it cannot leave a child
                resource.prlimit(pid, resource.RLIMIT_NPROC, (0, 0))
            kill(pid, lambda pid: runs_as_user(pid, uid))
        if clock.monotonic() > until:
            raise EngineError(f"Processes of the user id {uid} do not end.")
        time.sleep(0 if quiet else 0.005)
