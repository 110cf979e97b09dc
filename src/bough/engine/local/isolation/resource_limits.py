"""Resource limits of a compute, and the control group files that set them. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from bough.domain.autoscaling import memory_bytes_for

# In microseconds. A compute that has used its quota waits for the next period: with the kernel's default of 100 ms, a
# quarter of a core waits for up to 75 ms. With shorter periods, short queries of an idle compute wait, too, because the
# quota is what it can use at once (decision 0023 has figures).
CPU_PERIOD = 50_000

_NON_SESSION_PROCESSES = 200  # the server's own processes, parallel workers, and programs it starts

CgroupSetting = tuple[str, str]  # name of a file in the group, and its content


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """Memory includes the page cache of the compute, which the kernel reclaims first."""

    memory_bytes: int  # above which its processes are killed
    soft_memory_bytes: int  # above which they are slowed down and their memory is reclaimed first
    cu: float
    pids: int

    @classmethod
    def for_max_size(cls, cu: float, *, connections: int) -> Self:
        """Return the limits of a compute at its maximum size."""
        memory = memory_bytes_for(cu)
        return cls(memory_bytes=memory, soft_memory_bytes=memory, cu=cu, pids=connections + _NON_SESSION_PROCESSES)

    def at_size(self, cu: float) -> Self:
        """Return the limits at a smaller size.

        The hard memory limit stays that of the maximum size: a sudden need for memory, such as a thousand new clients,
        slows the compute down until it is resized, and does not kill it.
        """
        return replace(self, soft_memory_bytes=min(self.memory_bytes, memory_bytes_for(cu)), cu=cu)


def build_cgroup_settings(version: int, controller: str, limits: ResourceLimits) -> Iterator[CgroupSetting]:
    """Yield the settings in the order in which they must be written."""
    if controller == "memory":
        yield from _memory(version, limits.memory_bytes)
        yield _soft_memory(version, limits)
    elif controller == "cpu":
        yield build_cpu_weight(version, limits.cu)
    elif controller == "pids":
        yield ("pids.max", str(limits.pids))


def build_cpu_weight(version: int, cu: float) -> CgroupSetting:
    """Return the share of the compute on a busy machine."""
    if version == 2:
        return ("cpu.weight", str(min(10_000, max(1, round(cu * 100)))))
    return ("cpu.shares", str(min(262_144, max(2, round(cu * 1024)))))


def build_cpu_cap(version: int, cores: float | None) -> Iterator[CgroupSetting]:
    """Yield the settings in the order in which they must be written: the burst must never exceed the quota.

    A group that did not use its quota saves up to one more for later periods (a burst), if the kernel supports it.
    """
    quota = None if cores is None else round(cores * CPU_PERIOD)
    if version == 2:
        yield ("cpu.max.burst", "0")
        yield ("cpu.max", f"{'max' if quota is None else quota} {CPU_PERIOD}")
        yield ("cpu.max.burst", str(quota or 0))
    else:
        yield ("cpu.cfs_burst_us", "0")
        yield ("cpu.cfs_quota_us", "-1")  # so that the new period is not too short for the old quota
        yield ("cpu.cfs_period_us", str(CPU_PERIOD))
        yield ("cpu.cfs_quota_us", str(-1 if quota is None else quota))
        yield ("cpu.cfs_burst_us", str(quota or 0))


def _soft_memory(version: int, limits: ResourceLimits) -> CgroupSetting:
    """Version 1 applies it only when the whole machine is short of memory."""
    unlimited = limits.soft_memory_bytes >= limits.memory_bytes
    if version == 2:
        return ("memory.high", "max" if unlimited else str(limits.soft_memory_bytes))
    return ("memory.soft_limit_in_bytes", "-1" if unlimited else str(limits.soft_memory_bytes))


def _memory(version: int, limit: int) -> Iterator[CgroupSetting]:
    """Forbid swap: a compute above its limit would fill the machine's swap space and slow down all others.

    Version 1 limits the sum of memory and swap, which must never be below the memory limit.
    """
    if version == 2:
        yield ("memory.max", str(limit))
        yield ("memory.swap.max", "0")
    else:
        yield ("memory.memsw.limit_in_bytes", "-1")
        yield ("memory.limit_in_bytes", str(limit))
        yield ("memory.memsw.limit_in_bytes", str(limit))
