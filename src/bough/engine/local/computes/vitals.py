"""How a compute is, read off its processes: the memory they take and since when it runs.

Postgres's processes share most of their memory. The kernel's proportional figure (Pss) divides each
shared page among those who map it, so the sum over all of them counts every page once.
"""

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bough.engine.local.isolation import processes

_PSS = re.compile(rb"^Pss:\s+(\d+) kB$", re.MULTILINE)
_BOOT = re.compile(r"^btime (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    memory_bytes: int
    started_at: datetime


def vitals_of(pid: int) -> Vitals | None:
    """Of a postmaster and all that it forked; None when it is gone."""
    started_at = _started_at(pid)
    return Vitals(memory_bytes=_memory_bytes(pid), started_at=started_at) if started_at else None


def _memory_bytes(pid: int) -> int:
    waiting, total = [pid], 0
    while waiting:
        each = waiting.pop()
        total += _own_bytes(each)
        waiting += processes.children(each)
    return total


def _started_at(pid: int) -> datetime | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    boot = _BOOT.search(Path("/proc/stat").read_text())
    ticks = int(fields[19])  # proc(5), starttime: the 22nd field, of which two stand before the `)`
    return datetime.fromtimestamp(int(boot[1] if boot else 0) + ticks / os.sysconf("SC_CLK_TCK"), UTC)


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
