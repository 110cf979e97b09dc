"""Counts the work of a periodic task: opened files, listed folder entries and SQLite steps."""

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

VM_STEPS = 50  # instructions of the SQLite virtual machine that count as one step


@dataclass
class WorkCount:
    opened_paths: Counter[str] = field(default_factory=Counter)  # by path, without /proc
    listed_entries: int = 0  # entries of all listed folders
    sql_steps: int = 0  # in units of VM_STEPS instructions

    @property
    def opened_count(self) -> int:
        return self.opened_paths.total()

    def opened_in(self, folder: str) -> Counter[str]:
        return Counter({path: count for path, count in self.opened_paths.items() if path.startswith(f"{folder}/")})


_active: list[WorkCount] = []
_thread_state = local()


def _audit_hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _active or event not in ("open", "os.listdir", "os.scandir") or getattr(_thread_state, "hook", False):
        return
    path = os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes) else ""
    if not path or path.startswith("/proc"):
        return
    if event == "open":
        _active[-1].opened_paths[path] += 1
        return
    _thread_state.hook = True
    try:
        _active[-1].listed_entries += sum(1 for _ in Path(path).iterdir())
    except OSError:
        pass
    finally:
        _thread_state.hook = False


sys.addaudithook(_audit_hook)


@contextmanager
def count_work(store: SqliteStore) -> Iterator[WorkCount]:
    """Counts the work of all threads of this process inside the block."""
    work = WorkCount()

    def step() -> int:
        work.sql_steps += 1
        return 0

    connections = [_driver_connection(engine) for engine in (store._reader, store._writer, store._searcher)]
    for connection in connections:
        connection.set_progress_handler(step, VM_STEPS)
    _active.append(work)
    try:
        yield work
    finally:
        _active.pop()
        for connection in connections:
            connection.set_progress_handler(None, VM_STEPS)


def _driver_connection(engine: Any) -> Any:
    with engine.connect() as connection:
        return connection.connection.driver_connection
