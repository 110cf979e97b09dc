"""How a compute is, read off its processes: the memory they take and the processor time they took.

Postgres's processes share most of their memory. The kernel's proportional figure (Pss) divides each
shared page among those who map it, so the sum over all of them counts every page once.
The time of a process that ended is in the figures of the one that forked it.
"""

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from bough.engine.local.isolation import processes

_PSS = re.compile(rb"^Pss:\s+(\d+) kB$", re.MULTILINE)
_STAT_BYTES = 4096  # more than the kernel writes there
_TICKS = slice(11, 15)  # proc(5), utime to cstime: the 14th field to the 17th, of which two stand before the `)`


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUsage:
    memory_bytes: int
    cpu_seconds: float  # since it was started


def measure_processes(pid: int) -> ProcessUsage | None:
    """Of a postmaster and all that it forked; None when it is gone."""
    ticks = _ticks(pid)
    if ticks is None:
        return None
    # The postmaster first: one that ends meanwhile is missed until the next look, and never counted twice.
    forked = list(_forked(pid))
    ticks += sum(_ticks(each) or 0 for each in forked)
    memory_bytes = sum(map(_own_bytes, [pid, *forked]))
    return ProcessUsage(memory_bytes=memory_bytes, cpu_seconds=ticks / os.sysconf("SC_CLK_TCK"))


def measure_processes_cheaply(pid: int) -> ProcessUsage | None:
    """The same, cheaply: of its memory only what its processes do not share."""
    ticks = _ticks(pid)
    if ticks is None:
        return None
    forked = list(_forked(pid))
    ticks += sum(_ticks(each) or 0 for each in forked)
    memory_bytes = sum(map(_unshared_bytes, [pid, *forked]))
    return ProcessUsage(memory_bytes=memory_bytes, cpu_seconds=ticks / os.sysconf("SC_CLK_TCK"))


def read_cpu_seconds(postmasters: Collection[int]) -> dict[int, float]:
    """The processor time of many postmasters, each with all that it forked: every process is read once."""
    parents, ticks = _every_process()
    total = {pid: ticks[pid] for pid in postmasters if pid in ticks}
    for pid, own in ticks.items():
        forebear: int | None = parents[pid]
        while forebear is not None and forebear not in total:
            forebear = parents.get(forebear)
        if forebear is not None and pid not in total:
            total[forebear] += own
    return {pid: taken / os.sysconf("SC_CLK_TCK") for pid, taken in total.items()}


def _every_process() -> tuple[dict[int, int], dict[int, int]]:
    """Of each process that of its parent, and its ticks."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  thousands of entries: no object is made of each
        if name.isdecimal() and (fields := _stat_fields(int(name))) is not None:
            parents[int(name)] = int(fields[1])
            ticks[int(name)] = sum(map(int, fields[_TICKS]))
    return parents, ticks


def _forked(pid: int) -> Iterator[int]:
    """Its children and theirs; whoever forked comes before whom it forked."""
    for child in processes.list_children(pid):
        yield child
        yield from _forked(child)


def _ticks(pid: int) -> int | None:
    """Its own, and those of its children that ended."""
    fields = _stat_fields(pid)
    return None if fields is None else sum(map(int, fields[_TICKS]))


def _stat_fields(pid: int) -> list[bytes] | None:
    """What stands behind the name; None when it is gone. Thousands are read in one look, so no file object is made."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        return os.read(descriptor, _STAT_BYTES).rpartition(b")")[2].split()
    except ProcessLookupError:
        return None
    finally:
        os.close(descriptor)


def _own_bytes(pid: int) -> int:
    try:
        found = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_bytes())
    except OSError:
        # Not to be seen without the right to trace, which containers withhold from root.
        return _unshared_bytes(pid)
    return int(found[1]) * 1024 if found else 0


def _unshared_bytes(pid: int) -> int:
    """Less than the truth, for what processes share is left out; anyone may ask for it."""
    try:
        _size, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it ended while we looked
    return (resident - shared) * os.sysconf("SC_PAGESIZE")
