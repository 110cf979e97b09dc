"""The store on one machine: SQLite, one connection to read by, one to write by, and one for slow reads.

Statements run where they are asked for, on the event loop: most take tens of microseconds, and to
hand one to a thread and back takes ten times as long. What may wait for the disk or for a lock
(to begin, commit and roll back) runs in a thread of its own, one thing after the other; and so does,
in another, what may have to look at many rows, as a search does.
"""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
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
_SOON = 0.2  # seconds until what was committed without waiting is sent to the disk

logger = log.get_logger(component="store")


class SqliteStore:
    name = "sqlite"
    is_shared = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader = _connections(path)
        self._writer = _connections(path)
        self._writing = asyncio.Lock()
        self._waiting = ThreadPoolExecutor(1, "store")
        self._searcher = _connections(path)
        self._searching = ThreadPoolExecutor(1, "store-slow")
        self._settles = False

    async def open(self) -> None:
        self.path.touch(mode=0o600)
        self.path.chmod(0o600)
        await self._run_in_thread(self._upgrade)

    async def close(self) -> None:
        await self._run_in_thread(self._reader.dispose)
        await self._run_in_thread(self._writer.dispose)
        await asyncio.get_running_loop().run_in_executor(self._searching, self._searcher.dispose)
        self._waiting.shutdown()
        self._searching.shutdown()

    @asynccontextmanager
    async def read(self, *, slow: bool = False) -> AsyncIterator[Rows]:
        with translate_driver_errors():
            if slow:
                yield Rows(_ThreadedConnection(self._searcher, self._searching))
                return
            with self._reader.connect() as connection:
                yield Rows(_InlineConnection(connection))

    @asynccontextmanager
    async def try_leader_lock(self, lock_name: str = "tasks") -> AsyncIterator[bool]:
        yield True  # one machine, one control

    @asynccontextmanager
    async def transaction(self, *, durable: bool = True) -> AsyncIterator[Rows]:
        with translate_driver_errors(sqlite3.OperationalError):
            async with self._writing:
                with self._writer.connect() as connection:
                    driver = _driver(connection)
                    try:
                        await self._run_in_thread(partial(_begin, driver, durable))
                        yield Rows(_InlineConnection(connection))
                        await self._run_in_thread(driver.commit)
                    except BaseException:
                        # Behind what may still run there when we were cancelled, and before whoever begins next.
                        self._waiting.submit(driver.rollback)
                        raise
            if not durable:
                self._settle_soon()

    async def _run_in_thread(self, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._waiting, work)

    def _upgrade(self) -> None:
        with self._writer.connect() as connection:
            _begin(_driver(connection), lasting=True)
            try:
                schema.upgrade(connection, backup=self.path)
            finally:
                _driver(connection).rollback()

    def _settle_soon(self) -> None:
        """Later, so that whoever is in a hurry does not share the disk with it; once for all until then."""
        if not self._settles:
            self._settles = True
            asyncio.get_running_loop().call_later(_SOON, self._settle)

    def _settle(self) -> None:
        self._settles = False  # a commit from here on arranges its own
        asyncio.get_running_loop().run_in_executor(None, _sync, self.path.with_name(f"{self.path.name}-wal"))


class _InlineConnection:
    """A connection whose statements run at once; others have their turn between two of them."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    async def execute(self, statement: sa.Executable, values: Values = None, /) -> sa.CursorResult[Any]:
        await asyncio.sleep(0)
        return self._connection.execute(statement, values)


class _ThreadedConnection:
    """A connection whose statements run in a thread, to their last row."""

    def __init__(self, engine: sa.Engine, thread: ThreadPoolExecutor) -> None:
        self._engine = engine
        self._thread = thread

    async def execute(self, statement: sa.Executable, values: Values = None, /) -> sa.CursorResult[Any]:
        def run() -> sa.Result[Any]:
            with self._engine.connect() as connection:
                return connection.execute(statement, values).freeze()()

        result = await asyncio.get_running_loop().run_in_executor(self._thread, run)
        return cast(sa.CursorResult[Any], result)  # it is read from, never asked what it changed


def _connections(path: Path) -> sa.Engine:
    """One connection for everybody, in no transaction of SQLAlchemy's: we begin and end our own."""
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


def _begin(driver: sqlite3.Connection, lasting: bool) -> None:
    # In WAL mode `normal` leaves out the sync of a commit and nothing else; inside a transaction it cannot be changed.
    driver.execute(f"pragma synchronous={'full' if lasting else 'normal'}")
    driver.execute("begin immediate")


def _sync(wal: Path) -> None:
    try:
        with wal.open("rb") as file:
            os.fsync(file.fileno())
    except FileNotFoundError:
        pass  # the store was closed meanwhile, which syncs everything
    except OSError as error:
        logger.error("store_not_synced", error=str(error))
