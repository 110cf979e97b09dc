"""How much of the machine a compute may take, and how control groups are told so. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from bough.domain.autoscaling import memory_bytes_for

_NON_SESSION_PROCESSES = 200  # processes: the server's own, parallel workers, programs that it starts

CgroupSetting = tuple[str, str]  # file in a group, and what to write into it


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """Memory is in bytes, with the files it reads and writes, which the kernel drops first."""

    memory_bytes: int  # over which its processes are killed
    soft_memory_bytes: int  # over which they are slowed down, and must give back first
    cu: float  # in CUs
    pids: int

    @classmethod
    def for_max_size(cls, cu: float, *, connections: int) -> Self:
        """Of one that is as large as it may become."""
        memory = memory_bytes_for(cu)
        return cls(memory_bytes=memory, soft_memory_bytes=memory, cu=cu, pids=connections + _NON_SESSION_PROCESSES)

    def at_size(self, cu: float) -> Self:
        """While it is smaller. It may have all memory of its largest size: what it needs between two looks, such as
        for a thousand clients that come at once, shall slow it down and not kill it."""
        return replace(self, soft_memory_bytes=min(self.memory_bytes, memory_bytes_for(cu)), cu=cu)


def build_cgroup_settings(version: int, controller: str, limits: ResourceLimits) -> Iterator[CgroupSetting]:
    """In the order in which they must be written."""
    if controller == "memory":
        yield from _memory(version, limits.memory_bytes)
        yield _soft_memory(version, limits)
    elif controller == "cpu":
        yield build_cpu_weight(version, limits.cu)
    elif controller == "pids":
        yield ("pids.max", str(limits.pids))


def build_cpu_weight(version: int, cu: float) -> CgroupSetting:
    """A share of a busy machine and no more: a ceiling of a quarter of a core would also slow every
    start and wake, when nobody else wants the cores."""
    if version == 2:
        return ("cpu.weight", str(min(10_000, max(1, round(cu * 100)))))
    return ("cpu.shares", str(min(262_144, max(2, round(cu * 1024)))))


def _soft_memory(version: int, limits: ResourceLimits) -> CgroupSetting:
    """Version 1 minds it only when the whole machine is short of memory."""
    unlimited = limits.soft_memory_bytes >= limits.memory_bytes
    if version == 2:
        return ("memory.high", "max" if unlimited else str(limits.soft_memory_bytes))
    return ("memory.soft_limit_in_bytes", "-1" if unlimited else str(limits.soft_memory_bytes))


def _memory(version: int, limit: int) -> Iterator[CgroupSetting]:
    """No swap: a compute over its limit would fill the machine's, and slow down everyone.

    Version 1 counts memory and swap together and keeps that sum above the memory at every moment.
    """
    if version == 2:
        yield ("memory.max", str(limit))
        yield ("memory.swap.max", "0")
    else:
        yield ("memory.memsw.limit_in_bytes", "-1")
        yield ("memory.limit_in_bytes", str(limit))
        yield ("memory.memsw.limit_in_bytes", str(limit))
