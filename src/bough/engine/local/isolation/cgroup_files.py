"""One control group: what it holds, how a process comes in, and how the group goes with all that is in it."""

import errno
import time
from contextlib import suppress
from pathlib import Path

from bough import clock
from bough.engine.local.isolation import processes
from bough.engine.local.isolation.cgroup_hierarchies import read_pids

_VACATE_SECONDS = 5.0
_RECLAIMABLE = ("active_file", "inactive_file", "slab_reclaimable")  # of memory, when somebody needs it


def read_memory_bytes(version: int, group: Path) -> int:
    """Bytes of memory, with the files that the kernel keeps for it."""
    return int((group / ("memory.current" if version == 2 else "memory.usage_in_bytes")).read_text())


def read_reclaimable_bytes(group: Path) -> int:
    """Of these, what it would lose without harm."""
    lines = (line.split() for line in (group / "memory.stat").read_text().splitlines())
    return sum(int(figure) for name, figure in lines if name in _RECLAIMABLE)


def move_process(pid: int, group: Path) -> None:
    """The process, then what it forked before: what it forks from then on is born in the group.

    So after a process has moved, its children outside are those it had already, all of them listed;
    the same holds for each child in turn, and nothing slips through.
    """
    inside = read_pids(group)
    waiting = [pid]
    while waiting:
        each = waiting.pop()
        if each not in inside:
            with suppress(ProcessLookupError):
                (group / "cgroup.procs").write_text(str(each))
        waiting += processes.list_children(each)


def kill_and_remove(group: Path) -> None:
    until = clock.monotonic() + _VACATE_SECONDS
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or clock.monotonic() > until:
                raise
            for pid in read_pids(group):
                processes.kill(pid, lambda pid: pid in read_pids(group))
            time.sleep(0.005)


def stop_forking(group: Path) -> None:
    """First of all: who forks and ends faster than we look would never be caught."""
    if (group / "pids.max").exists():
        (group / "pids.max").write_text("0")
