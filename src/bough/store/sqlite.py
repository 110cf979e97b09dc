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
        self._writer = _writer(path)
        self._readers = _readers(path, readers)
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


def _writer(path: Path) -> AsyncEngine:
    engine = create_async_engine(_url(path), pool_size=1, max_overflow=0, pool_timeout=30)
    _prepare_connections(engine)

    @sa.event.listens_for(engine.sync_engine, "begin")
    def start(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _readers(path: Path, size: int) -> AsyncEngine:
    """Connections that are in no transaction, so there is nothing to begin, roll back or reset."""
    engine = create_async_engine(
        _url(path),
        pool_size=size,
        max_overflow=0,
        pool_timeout=30,
        isolation_level="AUTOCOMMIT",
        skip_autocommit_rollback=True,
        pool_reset_on_return=None,
    )
    _prepare_connections(engine)
    return engine


def _url(path: Path) -> str:
    return f"sqlite+aiosqlite:///{path}"


def _prepare_connections(engine: AsyncEngine) -> None:
    @sa.event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves: the driver's own comes too late
        cursor = connection.cursor()
        for pragma in _PRAGMAS:
            cursor.execute(f"pragma {pragma}")
        cursor.close()
