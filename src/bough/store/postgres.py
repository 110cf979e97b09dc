"""The PostgreSQL store for several machines."""

import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import sqlalchemy as sa
from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from bough.errors import InvalidSetting, Unavailable
from bough.store import schema
from bough.store.errors import translate_driver_errors
from bough.store.store import Rows

_LEADER_LOCK = 0x626F7567  # "boug": first key of the advisory locks of leaders
_MIGRATION_LOCK = 0x626F756768 + 1  # key of the advisory lock held during a schema migration


class PostgresStore:
    name = "postgres"
    is_shared = True

    def __init__(self, url: str, size: int = 20) -> None:
        """Each leader lock occupies one of the `size` connections while it is held."""
        parsed = make_url(url)
        if parsed.get_backend_name() not in ("postgresql", "postgres"):
            raise InvalidSetting("The setting 'store_url' is invalid. Use postgresql://user:password@host/database.")
        self._engine = create_async_engine(
            parsed.set(drivername="postgresql+asyncpg"), pool_size=size, max_overflow=0, pool_pre_ping=True
        )
        self._reading = self._engine.execution_options(isolation_level="AUTOCOMMIT")

    async def open(self) -> None:
        try:
            async with self._engine.connect() as connection:
                await _check_encoding(connection)
                # Serializes the migrations of control processes that start together; released with the transaction.
                await connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
                await connection.run_sync(schema.upgrade, backup=None)
        except (OSError, DBAPIError) as error:
            raise Unavailable(f"Cannot connect to the store at the address in 'store_url': {_cause(error)}") from error

    async def close(self) -> None:
        await self._engine.dispose()

    @asynccontextmanager
    async def read(self, *, slow: bool = False) -> AsyncIterator[Rows]:
        """`slow` makes no difference: every query runs in the server."""
        with translate_driver_errors(OSError):
            async with self._reading.connect() as connection:
                yield Rows(connection)

    @asynccontextmanager
    async def try_leader_lock(self, lock_name: str = "tasks") -> AsyncIterator[bool]:
        lock = sa.func.pg_try_advisory_xact_lock(_LEADER_LOCK, zlib.crc32(lock_name.encode()) >> 1)
        with translate_driver_errors(OSError):
            async with self._engine.begin() as connection:  # the lock is released with this transaction
                yield bool(await connection.scalar(sa.select(lock)))

    @asynccontextmanager
    async def transaction(self, *, durable: bool = True) -> AsyncIterator[Rows]:
        """Always durable: the control process survives a crash of the server and would rely on lost transactions."""
        with translate_driver_errors(OSError):
            async with self._engine.begin() as connection:
                yield Rows(connection)


async def _check_encoding(connection: AsyncConnection) -> None:
    encoding = await connection.scalar(sa.text("show server_encoding"))
    if encoding != "UTF8":
        raise InvalidSetting(
            f"The database in 'store_url' has the encoding {encoding}, but the store needs UTF8. "
            "Create one with: create database bough encoding 'UTF8' template template0"
        )


def _cause(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).splitlines()[0]
