"""Our own sessions in a compute: as the superuser, by the socket, in a database no tenant can write to.

Every name in our statements is schema-qualified and the search path is `pg_catalog`, so nothing a
tenant made can stand in for what we mean. Failed statements are not logged: some carry verifiers.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg

from bough import clock
from bough.engine.port import Contents, DatabaseNow, EngineError, RoleNow
from bough.engine.spec import DatabaseSpec
from bough.postgres import (
    ADMIN,
    MAINTENANCE_DATABASE,
    activity,
    backup,
    databases,
    position,
    recovery,
    roles,
    subscriptions,
)
from bough.postgres.backup import BackupEnd
from bough.postgres.position import Position
from bough.postgres.secret import bounded
from bough.postgres.template import SPARE_DATABASE, SPARE_ROLE

_CONNECT_SECONDS = 10.0
_STATEMENT_SECONDS = 60.0
_RELOAD_SECONDS = 5.0
_CLOSE_SECONDS = 1.0
_PASSING = ("08", "40", "53", "55", "57")  # SQLSTATE classes: connection, rollback, resources, locks, operator

# A setting that is no longer in the files and needs a restart is an error without a name there.
_WRONG_SETTINGS = """
    select name::text, error::text from pg_catalog.pg_file_settings
     where error is not null and error not like '%cannot be changed without restarting the server'
"""
_WAITING_SETTINGS = "select name::text from pg_catalog.pg_settings where pending_restart"
_CONTENTS = f"{roles.READ} union all {databases.READ}"  # in one question: a new project waits for each
_NOW = f"{roles.NOW} union all {databases.NOW} order by 1, 2"
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
    "lock_timeout": "10s",
    # These the owner of a database can set for everyone who comes in.
    "role": "none",
    "local_preload_libraries": "",
}

_SETTINGS_OF_17 = {"transaction_timeout": "0"}  # before, nobody knows it and would let us in with it


class Session:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def apply(
        self, verifiers: Mapping[str, str], wished_databases: tuple[DatabaseSpec, ...], *, major: int, fresh: bool
    ) -> None:
        """Roles, then the databases they own. In a fresh volume the template's spares are taken over."""
        present, names = _contents(await self._connection.fetch(_CONTENTS))
        plan = roles.plan(verifiers, present, spare=SPARE_ROLE if fresh else None, major=major)
        if plan:
            await self._connection.execute(";\n".join(plan))
        owners = {database.name: database.owner for database in wished_databases}
        for statement in databases.plan(owners, names, spare=SPARE_DATABASE if fresh else None):
            await self._connection.execute(statement)

    async def reload(self) -> bool:
        """Take over changed files; True when some setting waits for a restart."""
        wrong = dict(await self._connection.fetch(_WRONG_SETTINGS))
        # In this order: reading the files marks the settings that would need a restart.
        waiting = {name for (name,) in await self._connection.fetch(_WAITING_SETTINGS)}
        for name in wrong.keys() - waiting:
            raise EngineError(f"The compute cannot take its setting {name}: {wrong[name]}.", transient=False)
        before = await self._connection.fetchval(_LOADED)
        await self._connection.execute("select pg_catalog.pg_reload_conf()")
        until = clock.monotonic() + _RELOAD_SECONDS
        while await self._connection.fetchval(_LOADED) == before:
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
        await self._connection.execute("checkpoint")
        with suppress(asyncpg.ConfigurationLimitExceededError):
            await self._connection.execute(backup.KEEP_WAL, name)
        return str(await self._connection.fetchval(backup.start(major), name))

    async def end_backup(self, major: int) -> BackupEnd:
        return BackupEnd(**await self._connection.fetchrow(backup.stop(major)))

    async def subscribes(self) -> bool:
        return bool(await self._connection.fetchval(subscriptions.ANY))

    async def run(self, *statements: str) -> None:
        """All of them or none, in one transaction."""
        await self._connection.execute(";\n".join(statements))

    async def rows(self, question: str, *given: object) -> list[Any]:
        found: list[Any] = await self._connection.fetch(question, *given)
        return found

    async def contents(self) -> Contents:
        """A name that is not UTF-8, as a database of another encoding may make one, cannot be asked for by us."""
        found = [row for row in await self._connection.fetch(_NOW) if is_text(row["name"], row["owner"])]
        return Contents(
            roles=tuple(_role_now(row) for row in found if row["kind"] == "role"),
            databases=tuple(
                DatabaseNow(name=row["name"].decode(), owner=row["owner"].decode())
                for row in found
                if row["kind"] == "database"
            ),
        )

    async def is_busy(self) -> bool:
        return bool(await self._connection.fetchval(activity.IS_BUSY))

    async def logical_bytes(self) -> int:
        return int(await self._connection.fetchval(databases.SIZE))

    async def stored_bytes(self) -> int:
        return int(await self._connection.fetchval(databases.STORED))

    async def mark_now(self) -> str:
        """Where the WAL is on disk up to, and ends with a commit of this moment."""
        await self._connection.execute(recovery.EMIT)
        return str(await self._connection.fetchval(recovery.FLUSHED))

    async def last_replayed(self) -> datetime | None:
        """When the last transaction ended that was replayed; None when none was."""
        found: datetime | None = await self._connection.fetchval(recovery.LAST_COMMIT)
        return found

    async def written_until(self) -> str | None:
        found: str | None = await self._connection.fetchval(position.UNTIL)
        return found

    async def position(self) -> Position:
        return Position(**await self._connection.fetchrow(position.READ))


def is_text(*names: bytes | None) -> bool:
    try:
        for name in names:
            (name or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _role_now(row: Any) -> RoleNow:
    return RoleNow(
        name=row["name"].decode(),
        can_login=row["can_login"],
        verifier=bounded(row["verifier"]),
        valid_until=row["valid_until"],
    )


def _contents(rows: list[tuple[str, bytes, str | None]]) -> tuple[dict[str, str | None], list[str]]:
    """The roles with their verifiers, and the databases. Names of another encoding are nobody's wish."""
    named = [(of, name.decode(errors="replace"), verifier) for of, name, verifier in rows]
    kinds = {kind: [(name, verifier) for of, name, verifier in named if of == kind] for kind in ("role", "database")}
    return dict(kinds["role"]), [name for name, _ in kinds["database"]]


@asynccontextmanager
async def opened(sockets: Path, database: str = MAINTENANCE_DATABASE, major: int = 0) -> AsyncIterator[Session]:
    """A session for a few statements; whatever goes wrong in it is an EngineError.

    In a database of a tenant the major version must be told.
    """
    try:
        connection = await _connect(sockets, database, _SETTINGS | (_SETTINGS_OF_17 if major >= 17 else {}))
        try:
            yield Session(connection)
            await connection.close(timeout=_CLOSE_SECONDS)
        finally:
            connection.terminate()
    except asyncpg.PostgresError as error:
        raise (_trouble(error) if _is_passing(error) else _refusal(error)) from error
    # The last is what the driver says when the server is killed between two of its own steps.
    except (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise _trouble(error) from error


async def _connect(sockets: Path, database: str, settings: dict[str, str]) -> Any:
    return await asyncpg.connect(
        host=str(sockets),
        port=5432,
        user=ADMIN,
        database=database,
        password="",  # none is asked for; without it a password file would be looked for
        ssl=False,
        timeout=_CONNECT_SECONDS,
        command_timeout=_STATEMENT_SECONDS,
        server_settings=settings,
    )


def _is_passing(error: asyncpg.PostgresError) -> bool:
    return (error.sqlstate or "")[:2] in _PASSING and not isinstance(error, asyncpg.DiskFullError)


def _trouble(error: BaseException) -> EngineError:
    return EngineError(f"The compute did not take our statements: {_first_line(error)}.")


def _refusal(error: BaseException) -> EngineError:
    return EngineError(f"Postgres refused: {_first_line(error)}.", transient=False)


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0].rstrip(".")
