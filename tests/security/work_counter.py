"""Counts what a standing task does: files it opens, folder entries it walks, and what SQLite executes for it."""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import local
from typing import Any

from bough.store.sqlite import SqliteStore

VM_STEPS = 50  # of SQLite's virtual machine, that count as one


@dataclass
class WorkCount:
    opened_paths: Counter[str] = field(default_factory=Counter)  # by path; processes of the machine are left out
    listed_entries: int = 0  # of folders that were listed
    sql_steps: int = 0  # steps, in units of VM_STEPS

    @property
    def opened_count(self) -> int:
        return self.opened_paths.total()

    def opened_in(self, folder: str) -> Counter[str]:
        return Counter({path: count for path, count in self.opened_paths.items() if path.startswith(f"{folder}/")})


_active: list[WorkCount] = []
_inside = local()


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _active or event not in ("open", "os.listdir", "os.scandir") or getattr(_inside, "hook", False):
        return
    path = os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes) else ""
    if not path or path.startswith("/proc"):
        return
    if event == "open":
        _active[-1].opened_paths[path] += 1
        return
    _inside.hook = True
    try:
        _active[-1].listed_entries += sum(1 for _ in Path(path).iterdir())
    except OSError:
        pass
    finally:
        _inside.hook = False


sys.addaudithook(_hook)


@contextmanager
def count_work(store: SqliteStore) -> Iterator[WorkCount]:
    """What this process does meanwhile, in all its threads."""
    work = WorkCount()

    def step() -> int:
        work.sql_steps += 1
        return 0

    drivers = [_driver(engine) for engine in (store._reader, store._writer, store._searcher)]
    for driver in drivers:
        driver.set_progress_handler(step, VM_STEPS)
    _active.append(work)
    try:
        yield work
    finally:
        _active.pop()
        for driver in drivers:
            driver.set_progress_handler(None, VM_STEPS)


def _driver(engine: Any) -> Any:
    with engine.connect() as connection:
        return connection.connection.driver_connection
