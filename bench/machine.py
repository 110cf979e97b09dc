"""The machine of the bench: its description, and CPU affinity and memory of processes."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import bough


@dataclass(frozen=True, slots=True)
class Cores:
    """One core for the measured server, another for the load generator."""

    server: int
    load: int

    @classmethod
    def of_this_machine(cls) -> "Cores":
        usable = sorted(os.sched_getaffinity(0))
        return cls(server=usable[0], load=usable[-1])


def pin(pid: int, core: int) -> None:
    """Pin a process to a core. Affinity is a property of threads, so each thread is pinned."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            os.sched_setaffinity(int(thread.name), {core})
        except ProcessLookupError:
            continue


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Pin this process to a core for the duration. Processes started meanwhile stay there."""
    before = os.sched_getaffinity(0)
    pin(os.getpid(), core)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process so far, including its threads but not its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_meminfo() -> dict[str, int]:
    """Return bytes by the names of the kernel."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return {output[0].rstrip(":"): int(output[1]) * 1024 for output in lines}


def pss_of_tree(pid: int) -> int:
    """Return proportional memory share (Pss) of a process and its children, in bytes."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(pss_of(each) for each in (pid, *map(int, children)))


def private_kib(pids: Iterable[int]) -> int:
    """Return private memory of these processes, in KiB."""
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def pss_of(pid: int) -> int:
    """Return proportional memory share (Pss) of one process, in bytes."""
    with suppress(FileNotFoundError, ProcessLookupError):  # the process ended meanwhile
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def describe_machine() -> dict[str, str | int | list[float]]:
    return {
        "bough": bough.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "interpreter": sys.executable,
        "kernel": platform.release(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "user": "root" if os.geteuid() == 0 else "an ordinary user",
        "load_before": [round(load, 2) for load in os.getloadavg()],
    }


def _commit() -> str:
    """Return the commit of the checkout, or `unknown` outside of a repository.

    `-dirty` is appended when files differ from it. The results page is not counted, because the bench writes it.
    """
    folder = Path(__file__).parent
    try:
        commit = _git(folder, "rev-parse", "--short", "HEAD")
        changes = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ":/", ":!RESULTS.md")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit}-dirty" if changes else commit


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()
