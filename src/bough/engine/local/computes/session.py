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
from bough.engine.local.computes import answers
from bough.engine.local.computes.answers import is_text
from bough.engine.local.computes.limited_connection import TROUBLES, LimitedLoop, LimitedProtocol, understood
from bough.engine.local.computes.message_heads import Size
from bough.engine.port import ALL_LISTED, Contents, EngineError, Listing, Storage
from bough.engine.spec import DatabaseSpec
from bough.postgres import (
    ADMIN,
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

logger = log.get(room="engine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """What a server has of the roles and databases that it was asked for."""

    roles: Mapping[str, str | None]  # name → verifier
    databases: Collection[str]
    replicates: bool  # some role of tenants has the attribute REPLICATION


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a session may take of us."""

    connect: float  # seconds
    statement: float  # seconds
    whole: float | None  # seconds from its beginning to its end
    lock: str  # how long a statement waits for a lock, as Postgres writes it
    size: Size  # of what comes for one statement


CHANGE = Limits(connect=10.0, statement=60.0, whole=None, lock="10s", size=Size(16 * 1024**2, 200_000))
# Whoever only looks comes again: one that does not answer is not waited for.
LOOK = Limits(connect=3.0, statement=5.0, whole=8.0, lock="1s", size=Size(4 * 1024**2, 20_000))
# The size of a database is asked of the file system, file by file.
MEASURE = Limits(connect=3.0, statement=30.0, whole=35.0, lock="1s", size=LOOK.size)

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
_CONTENTS = f"{roles.READ} union all {databases.READ} union all {output_plugins.ANY_HAS_IT}"
# Where the template's role could replicate, taking it over ends that.
_TEMPLATE = Present(roles={SPARE_ROLE: None}, databases=[SPARE_DATABASE], replicates=False)
_NOT_AS_IN_TEMPLATE = (
    asyncpg.DuplicateObjectError,
    asyncpg.UndefinedObjectError,
    asyncpg.DuplicateDatabaseError,
    asyncpg.InvalidCatalogNameError,
)
_NOW = f"({roles.NOW}) union all ({databases.NOW}) order by 1, 2"
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


__all__ = ["CHANGE", "LOOK", "MEASURE", "Limits", "Session", "is_text", "opened"]


class Session:
    def __init__(self, connection: Any, protocol: LimitedProtocol, seconds: float) -> None:
        self._connection = connection
        self._protocol = protocol
        self._seconds = seconds  # that one statement may take

    async def apply(
        self, verifiers: Mapping[str, str], wished_databases: tuple[DatabaseSpec, ...], *, major: int, fresh: bool
    ) -> bool:
        """Roles, then the databases they own. In a fresh volume the template's spares are taken over.

        True when there was a role of tenants with the attribute REPLICATION.
        """
        owners = {database.name: database.owner for database in wished_databases}
        if fresh:
            # To look first would slow a new project's first query. If an earlier try was cut off, a statement fails.
            with suppress(*_NOT_AS_IN_TEMPLATE):
                await self._add_missing(verifiers, owners, _TEMPLATE, major=major, fresh=True)
                return _TEMPLATE.replicates
        asked = [*verifiers, SPARE_ROLE], [*owners, SPARE_DATABASE]
        present = _present(await self.rows(_CONTENTS, *asked))
        await self._add_missing(verifiers, owners, present, major=major, fresh=fresh)
        return present.replicates

    async def _add_missing(
        self, verifiers: Mapping[str, str], owners: Mapping[str, str], present: Present, *, major: int, fresh: bool
    ) -> None:
        plan = roles.plan(verifiers, present.roles, spare=SPARE_ROLE if fresh else None, major=major)
        if plan:
            await self._execute(";\n".join(plan))
        for statement in databases.plan(owners, present.databases, spare=SPARE_DATABASE if fresh else None):
            await self._execute(statement)

    async def reload(self) -> bool:
        """Take over changed files; True when some setting waits for a restart."""
        wrong = dict(await self.rows(_WRONG_SETTINGS))
        # In this order: reading the files marks the settings that would need a restart.
        waiting = {name for (name,) in await self.rows(_WAITING_SETTINGS)}
        for name in wrong.keys() - waiting:
            reason = f"{answers.text(name, _SHOWN)}: {answers.text(wrong[name], _SHOWN)}"
            raise EngineError(f"The compute cannot take its setting {reason}.", transient=False)
        before = answers.moment(await self._value(_LOADED))
        await self._execute("select pg_catalog.pg_reload_conf()")
        until = clock.monotonic() + _RELOAD_SECONDS
        while answers.moment(await self._value(_LOADED)) == before:
            if clock.monotonic() >= until:
                raise EngineError("The compute did not take its new settings; its log says why.")
            await asyncio.sleep(0.005)
        return bool(waiting)

    async def begin_backup(self, major: int) -> str:
        """From now on the server's files may be copied; the name of the first segment the copy needs.

        The checkpoint before makes the one that the server makes itself short. Tenants may have taken
        every slot; then the caller finds out whether the segments were kept.
        """
        name = backup.slot_name(secrets.token_hex(8))
        await self._execute("checkpoint")
        with suppress(asyncpg.ConfigurationLimitExceededError):
            await self._execute(backup.KEEP_WAL, name)
        return answers.segment(await self._value(backup.start(major), name))

    async def end_backup(self, major: int) -> BackupEnd:
        [row] = await self.rows(backup.stop(major))
        return answers.backup_end(row)

    async def subscribes(self) -> bool:
        return answers.truth(await self._value(subscriptions.ANY))

    async def run(self, *statements: str) -> None:
        """All of them or none, in one transaction."""
        await self._execute(";\n".join(statements))

    async def rows(self, question: str, *given: object) -> list[Any]:
        found: list[Any] = await self._answer(self._connection.fetch(question, *given))
        return found

    async def contents(self, listing: Listing = ALL_LISTED) -> Contents:
        most = {"role": listing.roles, "database": listing.databases}
        found = await self.rows(_NOW, listing.known_roles, listing.roles, listing.known_databases, listing.databases)
        return await answers.contents(found, most)

    async def is_busy(self) -> bool:
        return answers.truth(await self._value(activity.IS_BUSY))

    async def logical_bytes(self) -> int:
        return answers.number(await self._value(databases.SIZE))

    async def storage(self) -> tuple[Storage, bool]:
        """What is stored, and whether anybody may connect to Postgres's own databases."""
        [row] = await self.rows(storage.MEASURE)
        return answers.storage(row), answers.truth(row["is_open"])

    async def mark_now(self) -> str:
        """Where the WAL is on disk up to, and ends with a commit of this moment."""
        await self._execute(recovery.EMIT)
        return answers.lsn(await self._value(recovery.FLUSHED))

    async def last_replayed(self) -> datetime | None:
        """When the last transaction ended that was replayed; None when none was."""
        return answers.moment_or_none(await self._value(recovery.LAST_COMMIT))

    async def written_until(self) -> str | None:
        found = await self._value(position.UNTIL)
        return None if found is None else answers.lsn(found)

    async def position(self) -> Position:
        [row] = await self.rows(position.READ)
        return answers.position(row)

    async def _value(self, question: str, *given: object) -> object:
        [row] = await self.rows(question, *given)
        found: object = row[0]
        return found

    async def _execute(self, statement: str, *given: object) -> None:
        await self._answer(self._connection.execute(statement, *given))

    async def _answer(self, asked: Coroutine[Any, Any, Any]) -> Any:
        self._protocol.renew()
        async with asyncio.timeout(self._seconds):
            return await understood(asked)


def _present(rows: list[tuple[str, bytes, str | None]]) -> Present:
    """Names of another encoding are nobody's wish."""
    named = [(of, name.decode(errors="replace"), verifier) for of, name, verifier in rows]
    return Present(
        roles={name: verifier for of, name, verifier in named if of == "role"},
        databases=[name for of, name, _ in named if of == "database"],
        replicates=any(of == "replicates" for of, _, _ in named),
    )


@asynccontextmanager
async def opened(
    sockets: Path, database: str = MAINTENANCE_DATABASE, major: int = 0, limits: Limits = CHANGE
) -> AsyncIterator[Session]:
    """A session for a few statements; whatever goes wrong in it is an EngineError.

    In a database of a tenant the major version must be told.
    """
    loop = LimitedLoop(limits.size)
    settings = _SETTINGS | (_SETTINGS_OF_17 if major >= 17 else {})
    try:
        async with asyncio.timeout(limits.whole):
            connection = await understood(_connect(loop, sockets, database, settings, limits))
            assert loop.protocol is not None
            try:
                yield Session(connection, loop.protocol, limits.statement)
                await connection.close(timeout=_CLOSE_SECONDS)
            finally:
                connection.terminate()
    except TROUBLES as error:
        raise _trouble(error, loop.protocol) from error
    except _MISSHAPEN as error:
        [*_, place] = traceback.extract_tb(error.__traceback__)
        logger.warning("answer_misshapen", error=repr(error)[:_SHOWN], place=f"{place.name}:{place.lineno}")
        raise EngineError(f"{_NOT_POSTGRES}.", transient=False) from error


async def _connect(loop: LimitedLoop, sockets: Path, database: str, settings: dict[str, str], limits: Limits) -> Any:
    limited = {"lock_timeout": limits.lock}
    if limits.whole is not None:
        limited["statement_timeout"] = f"{limits.statement:.0f}s"  # the server does not go on for nobody
    return await asyncpg.connect(
        host=str(sockets),
        port=5432,
        user=ADMIN,
        database=database,
        password="",  # none is asked for; without it a password file would be looked for
        ssl=False,
        timeout=limits.connect,
        command_timeout=limits.statement,
        server_settings=settings | limited,
        loop=cast(asyncio.AbstractEventLoop, loop),
    )


def _is_passing(error: asyncpg.PostgresError) -> bool:
    return (error.sqlstate or "")[:2] in _PASSING and not isinstance(error, asyncpg.DiskFullError)


def _trouble(error: Exception, protocol: LimitedProtocol | None) -> EngineError:
    """Of the driver's errors some mean that the server was killed between two steps of its own."""
    if protocol is not None and protocol.refusal is not None:
        return EngineError(f"{_NOT_POSTGRES}: {protocol.refusal}. Suspend it.", transient=False)
    if isinstance(error, asyncpg.PostgresError) and not _is_passing(error):
        return EngineError(f"Postgres refused: {_first_line(error)}.", transient=False)
    return EngineError(f"The compute did not take our statements: {_first_line(error)}.")


def _first_line(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it does not answer"
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:_SHOWN].rstrip(".")
