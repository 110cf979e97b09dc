"""The SQLite store for one machine: one connection for reads, one for writes, one for slow reads.

Statements run on the event loop: most take tens of microseconds, and passing one to a thread and back takes ten
times as long. Operations that may wait for the disk or for a lock (begin, commit, rollback) run one after another in
a thread. Queries that may scan many rows, such as searches, run in a second thread.
"""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import sqlalchemy as sa

from bough import log
from bough.store import schema
from bough.store.errors import translate_driver_errors
from bough.store.queries import Values
from bough.store.store import Rows

_PRAGMAS = ("journal_mode=wal", "foreign_keys=on", "busy_timeout=10000")
_SYNC_DELAY = 0.2  # seconds until commits that are not durable are synced to disk

logger = log.get_logger(component="store")


class SqliteStore:
    name = "sqlite"
    is_shared = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader = _connections(path)
        self._writer = _connections(path)
        self._write_lock = asyncio.Lock()
        self._write_thread = ThreadPoolExecutor(1, "store")
        self._searcher = _connections(path)
        self._search_thread = ThreadPoolExecutor(1, "store-slow")
        self._sync_scheduled = False

    async def open(self) -> None:
        self.path.touch(mode=0o600)
        self.path.chmod(0o600)
        await self._run_in_thread(self._upgrade)

    async def close(self) -> None:
        await self._run_in_thread(self._reader.dispose)
        await self._run_in_thread(self._writer.dispose)
        await asyncio.get_running_loop().run_in_executor(self._search_thread, self._searcher.dispose)
        self._write_thread.shutdown()
        self._search_thread.shutdown()

    @asynccontextmanager
    async def read(self, *, slow: bool = False) -> AsyncIterator[Rows]:
        with translate_driver_errors():
            if slow:
                yield Rows(_ThreadedConnection(self._searcher, self._search_thread))
                return
            with self._reader.connect() as connection:
                yield Rows(_InlineConnection(connection))

    @asynccontextmanager
    async def try_leader_lock(self, lock_name: str = "tasks") -> AsyncIterator[bool]:
        yield True  # only one control process uses a SQLite store

    @asynccontextmanager
    async def transaction(self, *, durable: bool = True) -> AsyncIterator[Rows]:
        with translate_driver_errors(sqlite3.OperationalError):
            async with self._write_lock:
                with self._writer.connect() as connection:
                    driver = _driver(connection)
                    try:
                        await self._run_in_thread(partial(_begin, driver, durable))
                        yield Rows(_InlineConnection(connection))
                        await self._run_in_thread(driver.commit)
                    except BaseException:
                        # Runs after the work that was in progress when cancelled, and before the next transaction.
                        self._write_thread.submit(driver.rollback)
                        raise
            if not durable:
                self._schedule_sync()

    async def _run_in_thread(self, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._write_thread, work)

    def _upgrade(self) -> None:
        with self._writer.connect() as connection:
            _begin(_driver(connection), durable=True)
            try:
                schema.upgrade(connection, backup=self.path)
            finally:
                _driver(connection).rollback()

    def _schedule_sync(self) -> None:
        """Schedule one sync for all commits until then, later so that it does not delay durable commits."""
        if not self._sync_scheduled:
            self._sync_scheduled = True
            asyncio.get_running_loop().call_later(_SYNC_DELAY, self._sync_now)

    def _sync_now(self) -> None:
        self._sync_scheduled = False  # a later commit schedules its own sync
        asyncio.get_running_loop().run_in_executor(None, _sync, self.path.with_name(f"{self.path.name}-wal"))


class _InlineConnection:
    """Runs each statement at once on the event loop; other tasks can run between two statements."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    async def execute(self, statement: sa.Executable, values: Values = None, /) -> sa.CursorResult[Any]:
        await asyncio.sleep(0)
        return self._connection.execute(statement, values)


class _ThreadedConnection:
    """Runs each statement in a thread and fetches all of its rows there."""

    def __init__(self, engine: sa.Engine, thread: ThreadPoolExecutor) -> None:
        self._engine = engine
        self._thread = thread

    async def execute(self, statement: sa.Executable, values: Values = None, /) -> sa.CursorResult[Any]:
        def run() -> _FetchedRows:
            with self._engine.connect() as connection:
                return _FetchedRows(connection.execute(statement, values).all())

        result = await asyncio.get_running_loop().run_in_executor(self._thread, run)
        return cast(sa.CursorResult[Any], result)  # callers read rows from it and never ask for the row count


class _FetchedRows:
    """The part of a result that queries use. Freezing a result would create every row twice."""

    def __init__(self, rows: Sequence[sa.Row[Any]]) -> None:
        self._rows = rows

    def all(self) -> Sequence[sa.Row[Any]]:
        return self._rows

    def scalar(self) -> Any:
        return self._rows[0][0] if self._rows else None

    def mappings(self) -> "_FetchedMappings":
        return _FetchedMappings(self._rows)


class _FetchedMappings:
    def __init__(self, rows: Sequence[sa.Row[Any]]) -> None:
        self._rows = rows

    def all(self) -> Sequence[sa.RowMapping]:
        return [row._mapping for row in self._rows]

    def first(self) -> sa.RowMapping | None:
        return self._rows[0]._mapping if self._rows else None


def _connections(path: Path) -> sa.Engine:
    """One shared connection in autocommit mode: the store begins and ends its own transactions."""
    engine = sa.create_engine(
        f"sqlite:///{path}",
        connect_args={"check_same_thread": False},
        poolclass=sa.StaticPool,
        isolation_level="AUTOCOMMIT",
        skip_autocommit_rollback=True,
        pool_reset_on_return=None,
    )

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: Any) -> None:
        for pragma in _PRAGMAS:
            connection.execute(f"pragma {pragma}")

    return engine


def _driver(connection: sa.Connection) -> sqlite3.Connection:
    return cast(sqlite3.Connection, connection.connection.driver_connection)


def _begin(driver: sqlite3.Connection, durable: bool) -> None:
    # In WAL mode `normal` only omits the sync at commit. The pragma has no effect inside a transaction.
    driver.execute(f"pragma synchronous={'full' if durable else 'normal'}")
    driver.execute("begin immediate")


def _sync(wal: Path) -> None:
    try:
        with wal.open("rb") as file:
            os.fsync(file.fileno())
    except FileNotFoundError:
        pass  # the store was closed meanwhile, which syncs everything
    except OSError as error:
        logger.error("store_not_synced", error=str(error))
