"""Files of one control group: read its memory, move processes into it, and remove it with its processes."""

import errno
import time
from contextlib import suppress
from pathlib import Path

from bough import clock
from bough.engine.local.isolation import processes
from bough.engine.local.isolation.cgroup_hierarchies import read_pids

_REMOVE_TIMEOUT = 5.0
_RECLAIMABLE = ("active_file", "inactive_file", "slab_reclaimable")


def read_memory_bytes(version: int, group: Path) -> int:
    """Return the memory of the group in bytes, including its page cache."""
    return int((group / ("memory.current" if version == 2 else "memory.usage_in_bytes")).read_text())


def read_reclaimable_bytes(group: Path) -> int:
    """Return how many bytes of that memory the kernel can reclaim."""
    lines = (line.split() for line in (group / "memory.stat").read_text().splitlines())
    return sum(int(value) for name, value in lines if name in _RECLAIMABLE)


def move_process(pid: int, group: Path) -> None:
    """Move the process, then its descendants.

    After a process has moved, its new children start in the group. Its children outside are therefore those that it
    already had, which are all listed. The same holds for each child, so that no descendant is missed.
    """
    members = read_pids(group)
    pending = [pid]
    while pending:
        each = pending.pop()
        if each not in members:
            with suppress(ProcessLookupError):
                (group / "cgroup.procs").write_text(str(each))
        pending += processes.list_children(each)


def kill_and_remove(group: Path) -> None:
    deadline = clock.monotonic() + _REMOVE_TIMEOUT
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or clock.monotonic() > deadline:
                raise
            for pid in read_pids(group):
                processes.kill(pid, lambda pid: pid in read_pids(group))
            time.sleep(0.005)


def stop_forking(group: Path) -> None:
    """Forbid new processes before killing: a process that forks and exits fast enough would otherwise escape."""
    if (group / "pids.max").exists():
        (group / "pids.max").write_text("0")
