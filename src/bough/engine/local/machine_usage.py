"""Reads the CPU time, the load and the memory of the machine from /proc."""

import os
from pathlib import Path

_IDLE_FIELDS = (3, 4)  # idle and iowait of the first line of /proc/stat
_BUSY_FIELDS = 8  # user to steal; the guest fields after them are included in user


def read_cpu_seconds() -> float:
    """Return the CPU time of all processes and interrupts since the machine was started."""
    with Path("/proc/stat").open() as file:
        ticks = [int(field) for field in file.readline().split()[1 : 1 + _BUSY_FIELDS]]
    return (sum(ticks) - sum(ticks[number] for number in _IDLE_FIELDS)) / os.sysconf("SC_CLK_TCK")


def read_memory() -> tuple[int, int]:
    """Return the bytes in use, without what the kernel can reclaim, and the bytes of the machine."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    sizes = {words[0]: int(words[1]) * 1024 for words in lines if words[0] in ("MemTotal:", "MemAvailable:")}
    return sizes["MemTotal:"] - sizes["MemAvailable:"], sizes["MemTotal:"]
