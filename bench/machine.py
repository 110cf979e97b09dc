"""The machine under us: what it is, and which of its cores a process may use."""

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
    """One core for the server that is measured, another for whoever loads it."""

    server: int
    load: int

    @classmethod
    def of_this_machine(cls) -> "Cores":
        usable = sorted(os.sched_getaffinity(0))
        return cls(server=usable[0], load=usable[-1])


def pin(pid: int, core: int) -> None:
    """Keep a process on a core: each thread by itself, for the kernel knows affinity of threads only."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            os.sched_setaffinity(int(thread.name), {core})
        except ProcessLookupError:
            continue


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Keep ourselves on a core for a while. What is started meanwhile stays there."""
    before = os.sched_getaffinity(0)
    pin(os.getpid(), core)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpu_seconds(pid: int) -> float:
    """What a process has used of any core so far; threads included, children not."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_meminfo() -> dict[str, int]:
    """Bytes, by the kernel's names."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines}


def pss_of_tree(pid: int) -> int:
    """Bytes of a process and its children: what they share with others is counted in parts."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(pss_of(each) for each in (pid, *map(int, children)))


def private_kib(pids: Iterable[int]) -> int:
    """What these processes share with nobody."""
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def pss_of(pid: int) -> int:
    """Bytes of one process: what it shares with others is counted in parts."""
    with suppress(FileNotFoundError, ProcessLookupError):  # a worker that ended meanwhile
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
    """The commit of the checkout; `-dirty` when files differ from it, `unknown` outside of a repository."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()
