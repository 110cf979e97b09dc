"""One control group: what it holds, how a process comes in, and how the group goes with all that is in it."""

import errno
import time
from contextlib import suppress
from pathlib import Path

from bough import clock
from bough.engine.local.isolation import processes
from bough.engine.local.isolation.hierarchies import pids_in

_VACATE_SECONDS = 5.0
_GIVEN_BACK = ("active_file", "inactive_file", "slab_reclaimable")  # of memory, when somebody needs it


def held(version: int, group: Path) -> int:
    """Bytes of memory, with the files that the kernel keeps for it."""
    return int((group / ("memory.current" if version == 2 else "memory.usage_in_bytes")).read_text())


def given_back(group: Path) -> int:
    """Of these, what it would lose without harm."""
    lines = (line.split() for line in (group / "memory.stat").read_text().splitlines())
    return sum(int(figure) for name, figure in lines if name in _GIVEN_BACK)


def move(pid: int, group: Path) -> None:
    """The process, then what it forked before: what it forks from then on is born in the group.

    So after a process has moved, its children outside are those it had already, all of them listed;
    the same holds for each child in turn, and nothing slips through.
    """
    inside = pids_in(group)
    waiting = [pid]
    while waiting:
        each = waiting.pop()
        if each not in inside:
            with suppress(ProcessLookupError):
                (group / "cgroup.procs").write_text(str(each))
        waiting += processes.children(each)


def vacate(group: Path) -> None:
    until = clock.monotonic() + _VACATE_SECONDS
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or clock.monotonic() > until:
                raise
            for pid in pids_in(group):
                processes.kill(pid, lambda pid: pid in pids_in(group))
            time.sleep(0.005)


def stop_forking(group: Path) -> None:
    """First of all: who forks and ends faster than we look would never be caught."""
    if (group / "pids.max").exists():
        (group / "pids.max").write_text("0")
