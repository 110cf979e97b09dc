"""Sessions of the platform in a compute: the queries and commands it needs, with checked results."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import asyncpg

from bough import clock
from bough.engine.local.computes import query_results
from bough.engine.local.computes.compute_connection import (
    CHANGE_LIMITS,
    INSPECTION_LIMITS,
    MAX_SHOWN,
    MEASUREMENT_LIMITS,
    SESSION_ERRORS,
    ComputeConnection,
    SessionLimits,
    connect,
    convert_error,
)
from bough.engine.local.computes.limited_connection import LimitedEventLoop
from bough.engine.port import DEFAULT_CONTENTS_QUERY, BranchContents, ContentsQuery, EngineError, StorageUsage
from bough.postgres import (
    MAINTENANCE_DATABASE,
    activity,
    backup,
    databases,
    recovery,
    roles,
    server_status,
    storage,
    subscriptions,
)
from bough.postgres.backup import BackupEnd
from bough.postgres.server_status import ServerStatus

__all__ = [
    "CHANGE_LIMITS",
    "INSPECTION_LIMITS",
    "MEASUREMENT_LIMITS",
    "ComputeSession",
    "SessionLimits",
    "open_session",
]

_RELOAD_TIMEOUT = 5.0
_MAX_WAITING, _MAX_NAME = 20, 63  # settings that are shown, and characters of their names
_CLOSE_TIMEOUT = 1.0

# pg_file_settings reports a setting that was removed from the files and needs a restart as an error without a name.
_INVALID_SETTINGS = """
    select name::text, error::text from pg_catalog.pg_file_settings
     where error is not null and error not like '%cannot be changed without restarting the server'
"""
# A new length of the notification queue, and other preloaded libraries with their settings, do not justify
# disconnecting clients: they apply from the next start.
_PENDING_SETTINGS = """
    select name::text, name in ('max_notify_queue_pages', 'shared_preload_libraries') or name like '%.%' as may_wait
      from pg_catalog.pg_settings where pending_restart
"""
_CONF_LOAD_TIME = "select pg_catalog.pg_conf_load_time()"
_ROLES_AND_DATABASES = f"({roles.SELECT_ALL}) union all ({databases.SELECT_ALL}) order by 1, 2"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageMeasurement:
    usage: StorageUsage
    is_public: bool  # tenants may connect to Postgres's own databases
    statement_text_bytes: int  # of the file that pg_stat_statements keeps


@dataclass(frozen=True, slots=True)
class PendingSettings:
    needs_restart: bool  # clients must be disconnected, so that a setting takes effect
    waiting: tuple[str, ...]  # settings that may wait for the next start


class ComputeSession(ComputeConnection):
    async def reload(self) -> PendingSettings:
        """Reload the configuration files. Return the settings that take effect only after a restart."""
        invalid = dict(await self.fetch(_INVALID_SETTINGS))
        # In this order: reading pg_file_settings marks the settings that need a restart.
        pending = dict(await self.fetch(_PENDING_SETTINGS))
        for name in invalid.keys() - pending.keys():
            reason = (
                f"{query_results.parse_text(name, MAX_SHOWN)}: {query_results.parse_text(invalid[name], MAX_SHOWN)}"
            )
            raise EngineError(f"The compute cannot take its setting {reason}.", transient=False)
        before = query_results.parse_timestamp(await self.fetch_value(_CONF_LOAD_TIME))
        await self._execute_statement("select pg_catalog.pg_reload_conf()")
        deadline = clock.monotonic() + _RELOAD_TIMEOUT
        while query_results.parse_timestamp(await self.fetch_value(_CONF_LOAD_TIME)) == before:
            if clock.monotonic() >= deadline:
                raise EngineError("The compute did not reload its settings. See its log for the reason.")
            await asyncio.sleep(0.005)
        names = [query_results.parse_text(name, _MAX_NAME) for name, may_wait in pending.items() if may_wait]
        return PendingSettings(needs_restart=not all(pending.values()), waiting=tuple(sorted(names)[:_MAX_WAITING]))

    async def start_backup(self, major: int) -> str:
        """Start a backup. Return the name of the first WAL segment that a copy of the files needs.

        The explicit checkpoint shortens the one that pg_backup_start waits for. When tenants use every replication
        slot, no slot keeps the segments, and the caller must check that they still exist.
        """
        name = backup.slot_name(secrets.token_hex(8))
        await self._execute_statement("checkpoint")
        with suppress(asyncpg.ConfigurationLimitExceededError):
            await self._execute_statement(backup.CREATE_TEMPORARY_SLOT, name)
        return query_results.parse_segment(await self.fetch_value(backup.start_statement(major), name))

    async def stop_backup(self, major: int) -> BackupEnd:
        [row] = await self.fetch(backup.stop_statement(major))
        return query_results.parse_backup_end(row)

    async def has_subscriptions(self) -> bool:
        return query_results.parse_bool(await self.fetch_value(subscriptions.HAS_ANY))

    async def read_contents(self, query: ContentsQuery = DEFAULT_CONTENTS_QUERY) -> BranchContents:
        max_rows = {"role": query.max_roles, "database": query.max_databases}
        rows = await self.fetch(
            _ROLES_AND_DATABASES, query.known_roles, query.max_roles, query.known_databases, query.max_databases
        )
        return await query_results.parse_contents(rows, max_rows)

    async def is_busy(self) -> bool:
        return query_results.parse_bool(await self.fetch_value(activity.IS_BUSY))

    async def read_logical_bytes(self) -> int:
        return query_results.parse_number(await self.fetch_value(databases.SELECT_TOTAL_SIZE))

    async def measure_storage(self) -> StorageMeasurement:
        [row] = await self.fetch(storage.SELECT_STORED_BYTES)
        return StorageMeasurement(
            usage=query_results.parse_storage(row),
            is_public=query_results.parse_bool(row["is_public"]),
            statement_text_bytes=query_results.parse_number(row["statement_text_bytes"]),
        )

    async def write_wal_marker(self) -> str:
        """Write a commit with the current time to the WAL. Return the flushed LSN, which includes it."""
        await self._execute_statement(recovery.EMIT_MARKER)
        return query_results.parse_lsn(await self.fetch_value(recovery.SELECT_FLUSH_LSN))

    async def read_last_replay_timestamp(self) -> datetime | None:
        """Return the commit time of the last replayed transaction, or None when none was replayed."""
        return query_results.parse_optional_timestamp(await self.fetch_value(recovery.SELECT_LAST_COMMIT_TIME))

    async def read_wal_end(self) -> str | None:
        lsn = await self.fetch_value(server_status.SELECT_END_LSN)
        return None if lsn is None else query_results.parse_lsn(lsn)

    async def read_server_status(self) -> ServerStatus:
        [row] = await self.fetch(server_status.SELECT_SERVER_STATUS)
        return query_results.parse_server_status(row)


@asynccontextmanager
async def open_session(
    sockets: Path, database: str = MAINTENANCE_DATABASE, major: int = 0, limits: SessionLimits = CHANGE_LIMITS
) -> AsyncIterator[ComputeSession]:
    """Open a session for a few statements. Every error in it is raised as an EngineError.

    `major` is required for a tenant's database, whose owner may have set a transaction timeout.
    """
    loop = LimitedEventLoop(limits.response)
    try:
        async with asyncio.timeout(limits.total_timeout):
            connection = await connect(loop, sockets, database, major, limits)
            assert loop.protocol is not None
            try:
                yield ComputeSession(connection, loop.protocol, limits.statement_timeout)
                with suppress(TimeoutError):  # every statement was executed; under load, the server ends slowly
                    await connection.close(timeout=_CLOSE_TIMEOUT)
            finally:
                connection.terminate()
    except SESSION_ERRORS as error:
        raise convert_error(error, loop.protocol) from error
