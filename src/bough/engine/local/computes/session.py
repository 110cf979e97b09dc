"""Our own sessions in a compute: as the superuser, by the socket, in a database no tenant can write to.

Every name in our statements is schema-qualified and the search path is `pg_catalog`, so nothing a
tenant made can stand in for what we mean. Failed statements are not logged: some carry verifiers.

What answers may be no Postgres at all: how much it may send, and how long it is waited for, is limited, and what it
says is checked (`answers`).
"""

import asyncio
import secrets
import traceback
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import asyncpg

from bough import clock, log
from bough.engine.local.computes import query_results
from bough.engine.local.computes.limited_connection import (
    DRIVER_ERRORS,
    LimitedEventLoop,
    LimitedProtocol,
    await_driver,
)
from bough.engine.local.computes.message_headers import ResponseLimits
from bough.engine.local.computes.query_results import is_utf8
from bough.engine.port import DEFAULT_CONTENTS_QUERY, BranchContents, ContentsQuery, EngineError, StorageUsage
from bough.engine.spec import DatabaseSpec
from bough.postgres import (
    ADMIN_ROLE,
    MAINTENANCE_DATABASE,
    activity,
    backup,
    databases,
    output_plugins,
    position,
    recovery,
    roles,
    storage,
    subscriptions,
)
from bough.postgres.backup import BackupEnd
from bough.postgres.position import Position
from bough.postgres.template import SPARE_DATABASE, SPARE_ROLE

_RELOAD_SECONDS = 5.0
_CLOSE_SECONDS = 1.0
_SHOWN = 1000  # characters of what a server says, in an error
_NOT_POSTGRES = "What listens on the compute's socket does not answer as Postgres does"
_PASSING = ("08", "40", "53", "55", "57")  # SQLSTATE classes: connection, rollback, resources, locks, operator

# What our code raises when an answer does not have the shape that it must have.
_MISSHAPEN = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)

logger = log.get_logger(component="engine")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingObjects:
    """What a server has of the roles and databases that it was asked for."""

    roles: Mapping[str, str | None]  # name → verifier
    databases: Collection[str]
    has_replication_role: bool  # some role of tenants has the attribute REPLICATION


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """What a session may take of us."""

    connect_timeout: float  # seconds
    statement_timeout: float  # seconds
    total_timeout: float | None  # seconds from its beginning to its end
    lock_timeout: str  # how long a statement waits for a lock, as Postgres writes it
    response: ResponseLimits  # of what comes for one statement


CHANGE_LIMITS = SessionLimits(
    connect_timeout=10.0,
    statement_timeout=60.0,
    total_timeout=None,
    lock_timeout="10s",
    response=ResponseLimits(16 * 1024**2, 200_000),
)
# Whoever only looks comes again: one that does not answer is not waited for.
INSPECTION_LIMITS = SessionLimits(
    connect_timeout=3.0,
    statement_timeout=5.0,
    total_timeout=8.0,
    lock_timeout="1s",
    response=ResponseLimits(4 * 1024**2, 20_000),
)
# The size of a database is asked of the file system, file by file.
MEASUREMENT_LIMITS = SessionLimits(
    connect_timeout=3.0,
    statement_timeout=30.0,
    total_timeout=35.0,
    lock_timeout="1s",
    response=INSPECTION_LIMITS.response,
)

# A setting that is no longer in the files and needs a restart is an error without a name there.
_WRONG_SETTINGS = """
    select name::text, error::text from pg_catalog.pg_file_settings
     where error is not null and error not like '%cannot be changed without restarting the server'
"""
# Nobody is cut off for the length of the notification queue: it counts from the next start.
_WAITING_SETTINGS = """
    select name::text from pg_catalog.pg_settings where pending_restart and name <> 'max_notify_queue_pages'
"""
# In one question: a new project waits for each.
_CONTENTS = (
    f"{roles.SELECT_EXISTING} union all {databases.SELECT_EXISTING} union all {output_plugins.SELECT_REPLICATION_ROLE}"
)
# Where the template's role could replicate, taking it over ends that.
_TEMPLATE = ExistingObjects(roles={SPARE_ROLE: None}, databases=[SPARE_DATABASE], has_replication_role=False)
_NOT_AS_IN_TEMPLATE = (
    asyncpg.DuplicateObjectError,
    asyncpg.UndefinedObjectError,
    asyncpg.DuplicateDatabaseError,
    asyncpg.InvalidCatalogNameError,
)
_NOW = f"({roles.SELECT_ALL}) union all ({databases.SELECT_ALL}) order by 1, 2"
_LOADED = "select pg_catalog.pg_conf_load_time()"

_SETTINGS = {
    "application_name": "bough",
    "search_path": "pg_catalog",
    "log_min_error_statement": "panic",
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_min_duration_sample": "-1",
    "log_transaction_sample_rate": "0",
    "default_transaction_read_only": "off",
    "default_transaction_isolation": "read committed",
    "synchronous_commit": "on",
    "statement_timeout": "0",
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "max_parallel_workers_per_gather": "0",  # the planner knows little of what our questions read, and guesses high
    # These the owner of a database can set for everyone who comes in.
    "role": "none",
    "local_preload_libraries": "",
}

_SETTINGS_OF_17 = {"transaction_timeout": "0"}  # before, nobody knows it and would let us in with it


__all__ = [
    "CHANGE_LIMITS",
    "INSPECTION_LIMITS",
    "MEASUREMENT_LIMITS",
    "ComputeSession",
    "SessionLimits",
    "is_utf8",
    "open_session",
]


class ComputeSession:
    def __init__(self, connection: Any, protocol: LimitedProtocol, seconds: float) -> None:
        self._connection = connection
        self._protocol = protocol
        self._statement_timeout = seconds  # that one statement may take

    async def apply_roles_and_databases(
        self, verifiers: Mapping[str, str], target_databases: tuple[DatabaseSpec, ...], *, major: int, is_fresh: bool
    ) -> bool:
        """Roles, then the databases they own. In a fresh volume the template's spares are taken over.

        True when there was a role of tenants with the attribute REPLICATION.
        """
        owners = {database.name: database.owner for database in target_databases}
        if is_fresh:
            # To look first would slow a new project's first query. If an earlier try was cut off, a statement fails.
            with suppress(*_NOT_AS_IN_TEMPLATE):
                await self._add_missing(verifiers, owners, _TEMPLATE, major=major, fresh=True)
                return _TEMPLATE.has_replication_role
        asked = [*verifiers, SPARE_ROLE], [*owners, SPARE_DATABASE]
        present = _present(await self.fetch(_CONTENTS, *asked))
        await self._add_missing(verifiers, owners, present, major=major, fresh=is_fresh)
        return present.has_replication_role

    async def _add_missing(
        self,
        verifiers: Mapping[str, str],
        owners: Mapping[str, str],
        present: ExistingObjects,
        *,
        major: int,
        fresh: bool,
    ) -> None:
        plan = roles.plan_roles(verifiers, present.roles, spare=SPARE_ROLE if fresh else None, major=major)
        if plan:
            await self._execute_statement(";\n".join(plan))
        for statement in databases.plan_databases(owners, present.databases, spare=SPARE_DATABASE if fresh else None):
            await self._execute_statement(statement)

    async def reload(self) -> bool:
        """Take over changed files; True when some setting waits for a restart."""
        wrong = dict(await self.fetch(_WRONG_SETTINGS))
        # In this order: reading the files marks the settings that would need a restart.
        waiting = {name for (name,) in await self.fetch(_WAITING_SETTINGS)}
        for name in wrong.keys() - waiting:
            reason = f"{query_results.parse_text(name, _SHOWN)}: {query_results.parse_text(wrong[name], _SHOWN)}"
            raise EngineError(f"The compute cannot take its setting {reason}.", transient=False)
        before = query_results.parse_timestamp(await self._fetch_value(_LOADED))
        await self._execute_statement("select pg_catalog.pg_reload_conf()")
        until = clock.monotonic() + _RELOAD_SECONDS
        while query_results.parse_timestamp(await self._fetch_value(_LOADED)) == before:
            if clock.monotonic() >= until:
                raise EngineError("The compute did not take its new settings; its log says why.")
            await asyncio.sleep(0.005)
        return bool(waiting)

    async def start_backup(self, major: int) -> str:
        """From now on the server's files may be copied; the name of the first segment the copy needs.

        The checkpoint before makes the one that the server makes itself short. Tenants may have taken
        every slot; then the caller finds out whether the segments were kept.
        """
        name = backup.slot_name(secrets.token_hex(8))
        await self._execute_statement("checkpoint")
        with suppress(asyncpg.ConfigurationLimitExceededError):
            await self._execute_statement(backup.CREATE_TEMPORARY_SLOT, name)
        return query_results.parse_segment(await self._fetch_value(backup.start_statement(major), name))

    async def stop_backup(self, major: int) -> BackupEnd:
        [row] = await self.fetch(backup.stop_statement(major))
        return query_results.parse_backup_end(row)

    async def has_subscriptions(self) -> bool:
        return query_results.parse_bool(await self._fetch_value(subscriptions.HAS_ANY))

    async def execute(self, *statements: str) -> None:
        """All of them or none, in one transaction."""
        await self._execute_statement(";\n".join(statements))

    async def fetch(self, query: str, *args: object) -> list[Any]:
        found: list[Any] = await self._await_reply(self._connection.fetch(query, *args))
        return found

    async def read_contents(self, query: ContentsQuery = DEFAULT_CONTENTS_QUERY) -> BranchContents:
        most = {"role": query.max_roles, "database": query.max_databases}
        found = await self.fetch(_NOW, query.known_roles, query.max_roles, query.known_databases, query.max_databases)
        return await query_results.parse_contents(found, most)

    async def is_busy(self) -> bool:
        return query_results.parse_bool(await self._fetch_value(activity.IS_BUSY))

    async def read_logical_bytes(self) -> int:
        return query_results.parse_number(await self._fetch_value(databases.SELECT_TOTAL_SIZE))

    async def measure_storage(self) -> tuple[StorageUsage, bool]:
        """What is stored, and whether anybody may connect to Postgres's own databases."""
        [row] = await self.fetch(storage.SELECT_STORED_BYTES)
        return query_results.parse_storage(row), query_results.parse_bool(row["is_open"])

    async def write_wal_marker(self) -> str:
        """Where the WAL is on disk up to, and ends with a commit of this moment."""
        await self._execute_statement(recovery.EMIT_MARKER)
        return query_results.parse_lsn(await self._fetch_value(recovery.SELECT_FLUSH_LSN))

    async def read_last_replay_timestamp(self) -> datetime | None:
        """When the last transaction ended that was replayed; None when none was."""
        return query_results.parse_optional_timestamp(await self._fetch_value(recovery.SELECT_LAST_COMMIT_TIME))

    async def read_wal_end(self) -> str | None:
        found = await self._fetch_value(position.SELECT_END_LSN)
        return None if found is None else query_results.parse_lsn(found)

    async def read_position(self) -> Position:
        [row] = await self.fetch(position.SELECT_POSITION)
        return query_results.parse_position(row)

    async def _fetch_value(self, question: str, *given: object) -> object:
        [row] = await self.fetch(question, *given)
        found: object = row[0]
        return found

    async def _execute_statement(self, statement: str, *given: object) -> None:
        await self._await_reply(self._connection.execute(statement, *given))

    async def _await_reply(self, asked: Coroutine[Any, Any, Any]) -> Any:
        self._protocol.reset_counters()
        async with asyncio.timeout(self._statement_timeout):
            return await await_driver(asked)


def _present(rows: list[tuple[str, bytes, str | None]]) -> ExistingObjects:
    """Names of another encoding are nobody's wish."""
    named = [(of, name.decode(errors="replace"), verifier) for of, name, verifier in rows]
    return ExistingObjects(
        roles={name: verifier for of, name, verifier in named if of == "role"},
        databases=[name for of, name, _ in named if of == "database"],
        has_replication_role=any(of == "replicates" for of, _, _ in named),
    )


@asynccontextmanager
async def open_session(
    sockets: Path, database: str = MAINTENANCE_DATABASE, major: int = 0, limits: SessionLimits = CHANGE_LIMITS
) -> AsyncIterator[ComputeSession]:
    """A session for a few statements; whatever goes wrong in it is an EngineError.

    In a database of a tenant the major version must be told.
    """
    loop = LimitedEventLoop(limits.response)
    settings = _SETTINGS | (_SETTINGS_OF_17 if major >= 17 else {})
    try:
        async with asyncio.timeout(limits.total_timeout):
            connection = await await_driver(_connect(loop, sockets, database, settings, limits))
            assert loop.protocol is not None
            try:
                yield ComputeSession(connection, loop.protocol, limits.statement_timeout)
                await connection.close(timeout=_CLOSE_SECONDS)
            finally:
                connection.terminate()
    except DRIVER_ERRORS as error:
        raise _convert_error(error, loop.protocol) from error
    except _MISSHAPEN as error:
        [*_, place] = traceback.extract_tb(error.__traceback__)
        logger.warning("answer_misshapen", error=repr(error)[:_SHOWN], place=f"{place.name}:{place.lineno}")
        raise EngineError(f"{_NOT_POSTGRES}.", transient=False) from error


async def _connect(
    loop: LimitedEventLoop, sockets: Path, database: str, settings: dict[str, str], limits: SessionLimits
) -> Any:
    limited = {"lock_timeout": limits.lock_timeout}
    if limits.total_timeout is not None:
        limited["statement_timeout"] = f"{limits.statement_timeout:.0f}s"  # the server does not go on for nobody
    return await asyncpg.connect(
        host=str(sockets),
        port=5432,
        user=ADMIN_ROLE,
        database=database,
        password="",  # none is asked for; without it a password file would be looked for
        ssl=False,
        timeout=limits.connect_timeout,
        command_timeout=limits.statement_timeout,
        server_settings=settings | limited,
        loop=cast(asyncio.AbstractEventLoop, loop),
    )


def _is_transient(error: asyncpg.PostgresError) -> bool:
    return (error.sqlstate or "")[:2] in _PASSING and not isinstance(error, asyncpg.DiskFullError)


def _convert_error(error: Exception, protocol: LimitedProtocol | None) -> EngineError:
    """Of the driver's errors some mean that the server was killed between two steps of its own."""
    if protocol is not None and protocol.violation is not None:
        return EngineError(f"{_NOT_POSTGRES}: {protocol.violation}. Suspend it.", transient=False)
    if isinstance(error, asyncpg.PostgresError) and not _is_transient(error):
        return EngineError(f"Postgres refused: {_first_line(error)}.", transient=False)
    return EngineError(f"The compute did not take our statements: {_first_line(error)}.")


def _first_line(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it does not answer"
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:_SHOWN].rstrip(".")
