"""The store on one machine: SQLite, many readers, one writer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from bough.store import schema
from bough.store.failures import store_failures
from bough.store.store import Rows

_PRAGMAS = ("journal_mode=wal", "synchronous=full", "foreign_keys=on", "busy_timeout=10000")


class SqliteStore:
    name = "sqlite"
    shared = False

    def __init__(self, path: Path, readers: int = 4) -> None:
        self.path = path
        self._writer = _engine(path, 1, "BEGIN IMMEDIATE")
        self._readers = _engine(path, readers, None).execution_options(isolation_level="AUTOCOMMIT")
        self._writing = asyncio.Lock()

    async def open(self) -> None:
        self.path.touch(mode=0o600)
        self.path.chmod(0o600)
        async with self._writer.connect() as connection:
            await schema.upgrade(connection, backup=self.path)

    async def close(self) -> None:
        await self._readers.dispose()
        await self._writer.dispose()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Rows]:
        with store_failures():
            async with self._readers.connect() as connection:
                yield Rows(connection)

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[bool]:
        yield True  # one machine, one control

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Rows]:
        with store_failures():
            async with self._writing, self._writer.begin() as connection:
                yield Rows(connection)


def _engine(path: Path, size: int, begin: str | None) -> AsyncEngine:
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}", pool_size=size, max_overflow=0, pool_timeout=30)

    @sa.event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves: the driver's own comes too late
        cursor = connection.cursor()
        for pragma in _PRAGMAS:
            cursor.execute(f"pragma {pragma}")
        cursor.close()

    if begin is not None:

        @sa.event.listens_for(engine.sync_engine, "begin")
        def start(connection: sa.Connection) -> None:
            connection.exec_driver_sql(begin)

    return engine
