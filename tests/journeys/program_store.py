"""Reads the store of a platform that runs in another process."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any


def read_store(home: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{home / 'store.db'}?mode=ro", uri=True)) as store:
        return store.execute(query).fetchall()
