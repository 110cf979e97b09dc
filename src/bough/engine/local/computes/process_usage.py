"""Measure the memory and CPU time of a compute's processes.

Postgres processes share most of their memory. The proportional set size (Pss) divides each shared page among the
processes that map it, so that the sum over all processes counts every page once. The CPU time of an ended process is
included in the figures of its parent.
"""

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from bough.engine.local.isolation import processes

_PSS = re.compile(rb"^Pss:\s+(\d+) kB$", re.MULTILINE)
_STAT_BYTES = 4096  # more than the kernel writes to /proc/PID/stat
_START = 19  # starttime: field 22
_TICKS = slice(11, 15)  # utime to cstime: fields 14 to 17 of proc(5), counted from the `)` after field 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUsage:
    memory_bytes: int
    cpu_seconds: float  # since the compute started


def measure_processes(pid: int, *, exact: bool = True) -> ProcessUsage | None:
    """Measure a postmaster and its descendants. Return None when it has ended.

    With `exact=False` the measurement is cheap and counts only memory that the processes do not share.
    """
    ticks = _read_ticks(pid)
    if ticks is None:
        return None
    # The postmaster first: a child that ends in the meantime is missed until the next call, and never counted twice.
    descendants = list(_descendants(pid))
    ticks += sum(_read_ticks(each) or 0 for each in descendants)
    memory_bytes = sum(map(_read_pss_bytes if exact else _read_unshared_bytes, [pid, *descendants]))
    return ProcessUsage(memory_bytes=memory_bytes, cpu_seconds=ticks / os.sysconf("SC_CLK_TCK"))


def read_start_ticks(pid: int) -> int | None:
    """Return when the process was started, which tells it from another one that had the same pid."""
    fields = _read_stat_fields(pid)
    return None if fields is None else int(fields[_START])


def read_cpu_seconds(postmasters: Collection[int]) -> dict[int, float]:
    """Return the CPU time of each postmaster with its descendants. Each process of the machine is read once."""
    parents, ticks = _read_all_processes()
    total = {pid: ticks[pid] for pid in postmasters if pid in ticks}
    for pid, own_ticks in ticks.items():
        ancestor: int | None = parents[pid]
        while ancestor is not None and ancestor not in total:
            ancestor = parents.get(ancestor)
        if ancestor is not None and pid not in total:
            total[ancestor] += own_ticks
    return {pid: sum_ticks / os.sysconf("SC_CLK_TCK") for pid, sum_ticks in total.items()}


def _read_all_processes() -> tuple[dict[int, int], dict[int, int]]:
    """Return the parent and the ticks of each process, by pid."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  avoids creating thousands of Path objects
        if name.isdecimal() and (fields := _read_stat_fields(int(name))) is not None:
            parents[int(name)] = int(fields[1])
            ticks[int(name)] = sum(map(int, fields[_TICKS]))
    return parents, ticks


def _descendants(pid: int) -> Iterator[int]:
    """Yield parents before their children."""
    for child in processes.list_children(pid):
        yield child
        yield from _descendants(child)


def _read_ticks(pid: int) -> int | None:
    """Return its own ticks and those of its ended children."""
    fields = _read_stat_fields(pid)
    return None if fields is None else sum(map(int, fields[_TICKS]))


def _read_stat_fields(pid: int) -> list[bytes] | None:
    """Return the fields after the name, or None when the process has ended.

    One call of `read_cpu_seconds` reads thousands of files, so this avoids file objects.
    """
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


def _read_pss_bytes(pid: int) -> int:
    try:
        match = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_bytes())
    except OSError:
        # Reading it requires permission to trace, which root lacks in many containers.
        return _read_unshared_bytes(pid)
    return int(match[1]) * 1024 if match else 0


def _read_unshared_bytes(pid: int) -> int:
    """Return the memory without shared pages, which is less than the process uses. No permission is required."""
    try:
        _size, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has just ended
    return (resident - shared) * os.sysconf("SC_PAGESIZE")
