"""Memory limits of the platform's own processes, so that no tenant can make them exhaust the machine.

A limit counts private memory. A control group would also count the page cache of files that control copies and the
first pages of every compute that it starts. Reading /proc once a second avoids both and needs neither cgroups nor
root. Between two checks RLIMIT_DATA applies: allocations beyond it fail.
"""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bough import byte_sizes
from bough.config import Settings
from bough.supervisor.gateway_user import count_workers

CHECK_INTERVAL = 1.0  # seconds between two checks of a process
_SHARE = 4  # control may use 1/4 of the machine's memory, and all gateway workers together another 1/4
_MIN_CONTROL = 1024**3
_MIN_WORKER = 512 * 1024**2
_STACKS = 1024**3  # RLIMIT_DATA counts the whole stack of each thread, of which little is used
_COUNTED_FIELDS = ("RssAnon:", "VmSwap:")


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    bytes: int
    setting: str  # the setting that changes the limit

    @contextmanager
    def limit_new_processes(self) -> Iterator[None]:
        """Apply RLIMIT_DATA to the processes that we start in this context.

        Set only the soft limit, because control raises it for the computes that it starts.
        """
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = 2 * self.bytes + _STACKS
        resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))

    def describe_excess(self, pid: int) -> str | None:
        """Return why the process must be killed; None while it is within the limit."""
        used = read_private_bytes(pid)
        if used <= self.bytes:
            return None
        return (
            f"it used {byte_sizes.format_mb_or_gb(used)} of memory, and {self.setting} is "
            f"{byte_sizes.format_mb_or_gb(self.bytes)}"
        )


def limit_for_control(settings: Settings) -> MemoryLimit:
    limit = settings.control_memory_bytes or max(_MIN_CONTROL, _machine_memory() // _SHARE)
    return MemoryLimit(limit, "control_memory_bytes")


def limit_for_worker(settings: Settings) -> MemoryLimit:
    share = _machine_memory() // _SHARE // count_workers(settings)
    return MemoryLimit(settings.gateway_worker_memory_bytes or max(_MIN_WORKER, share), "gateway_worker_memory_bytes")


def read_private_bytes(pid: int) -> int:
    """Return the private memory of the process, resident or swapped out; 0 when it has exited."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(_COUNTED_FIELDS))


def _machine_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
