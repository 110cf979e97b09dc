"""The tiers of the test suite, and how many tests run at a time.

`--fast` runs what needs no Postgres server, no browser and no other program: pure tests and tests of the API in this
process. Without an option the everyday tier runs; `--long` adds the tests with large counts.
"""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
WORKERS_PER_CORE = 2  # half of most tests is waiting
MEMORY_PER_WORKER = 1.5 * 2**30  # a platform with its computes, and its home in /dev/shm
RESERVED_MEMORY = 2**30
# Folders and files of the fast tier, relative to tests/. Everything else starts Postgres or another program.
FAST = (
    "access",
    "api",
    "client",
    "compat/test_contract.py",
    "compat/test_names.py",
    "compat/test_openapi.py",
    "control",
    "domain",
    "gateway/auth",
    "gateway/wire",
    "layout",
    "pages",
    "postgres",
    "store",
    "supervisor",
)
SLOW_FIXTURES = frozenset({"postgres_server", "server", "browser", "js", "node_modules"})
SLOW_PARAMETERS = frozenset({"postgres"})


def tier_of(config: pytest.Config) -> str:
    if config.getoption("--fast"):
        return "fast"
    return "long" if config.getoption("--long") else "everyday"


def is_in_fast_folders(path: Path) -> bool:
    """Whether a file belongs to the fast tier, or a folder holds such a file."""
    if not path.is_relative_to(TESTS):
        return True
    relative = path.relative_to(TESTS)
    fast = [Path(each) for each in FAST]
    return any(relative.is_relative_to(each) or each.is_relative_to(relative) for each in fast)


def needs_postgres(item: pytest.Item) -> bool:
    fixtures = set(getattr(item, "fixturenames", ()))
    parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
    return bool(fixtures & SLOW_FIXTURES) or any(
        each in SLOW_PARAMETERS for each in parameters if isinstance(each, str)
    )


def is_deselected(item: pytest.Item, tier: str) -> bool:
    if tier == "long":
        return False
    if item.get_closest_marker("long"):
        return True
    return tier == "fast" and (needs_postgres(item) or item.get_closest_marker("slow") is not None)


def choose_workers() -> int:
    """Choose as many workers as the cores and the memory of this machine allow."""
    by_cores = round(len(os.sched_getaffinity(0)) * WORKERS_PER_CORE)
    by_memory = int((_available_memory() - RESERVED_MEMORY) / MEMORY_PER_WORKER)
    return max(1, min(by_cores, by_memory))


def _available_memory() -> int:
    """Return bytes: of the machine, and of our control group where it has a limit."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    machine = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    group = Path("/sys/fs/cgroup/memory.max")
    limit = group.read_text().strip() if group.exists() else "max"
    if limit == "max":
        return machine
    return min(machine, int(limit) - int(group.with_name("memory.current").read_text()))


def seconds_by_folder(reports: list[Any]) -> Counter[str]:
    """Return the seconds that tests took, set-up and teardown included, by folder of tests/."""
    seconds: Counter[str] = Counter()
    for report in (each for each in reports if hasattr(each, "duration")):  # not the reports of collection
        parts = Path(report.nodeid.split("::")[0]).parts
        seconds[parts[1] if len(parts) > 2 else parts[-1]] += report.duration
    return seconds
