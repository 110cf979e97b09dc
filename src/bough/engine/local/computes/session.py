"""Our own sessions in a compute: as the superuser, by the socket, in a database no tenant can write to.

Every name in our statements is schema-qualified and the search path is `pg_catalog`, so nothing a
tenant made can stand in for what we mean. Failed statements are not logged: some carry verifiers.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg

from bough import clock
from bough.engine.port import EngineError, Login
from bough.engine.spec import DatabaseSpec
from bough.postgres import ADMIN, MAINTENANCE_DATABASE, activity, backup, databases, roles
from bough.postgres.backup import BackupEnd
from bough.postgres.template import SPARE_DATABASE, SPARE_ROLE

_CONNECT_SECONDS = 10.0
_STATEMENT_SECONDS = 60.0
_RELOAD_SECONDS = 5.0
_CLOSE_SECONDS = 1.0
_PASSING = ("08", "40", "53", "55", "57")  # SQLSTATE classes: connection, rollback, resources, locks, operator

_WRONG_SETTINGS = "select name::text, error::text from pg_catalog.pg_file_settings where error is not null"
_WAITING_SETTINGS = "select name::text from pg_catalog.pg_settings where pending_restart"
_CONTENTS = f"{roles.READ} union all {databases.READ}"  # in one question: a new project waits for each
_LOADED = "select pg_catalog.pg_conf_load_time()"

_SETTINGS = {
    "application_name": "bough",
    "search_path": "pg_catalog",
    "log_min_error_statement": "panic",
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "default_transaction_read_only": "off",
    "statement_timeout": "0",
}


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
        row = await self._connection.fetchrow(backup.stop(major))
        return BackupEnd(last_segment=row["last"], label=row["label"])

    async def logins(self) -> tuple[Login, ...]:
        """A name that is not UTF-8, as a database of another encoding may make one, cannot be asked for by us."""
        found = await self._connection.fetch(roles.LOGINS)
        return tuple(
            Login(name=name.decode(), verifier=verifier, valid_until=valid_until)
            for name, verifier, valid_until in found
            if _is_text(name)
        )

    async def is_busy(self) -> bool:
        return bool(await self._connection.fetchval(activity.IS_BUSY))

    async def logical_bytes(self) -> int:
        return int(await self._connection.fetchval(databases.SIZE))


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _contents(rows: list[tuple[str, bytes, str | None]]) -> tuple[dict[str, str | None], list[str]]:
    """The roles with their verifiers, and the databases. Names of another encoding are nobody's wish."""
    named = [(of, name.decode(errors="replace"), verifier) for of, name, verifier in rows]
    kinds = {kind: [(name, verifier) for of, name, verifier in named if of == kind] for kind in ("role", "database")}
    return dict(kinds["role"]), [name for name, _ in kinds["database"]]


@asynccontextmanager
async def opened(sockets: Path, database: str = MAINTENANCE_DATABASE) -> AsyncIterator[Session]:
    """A session for a few statements; whatever goes wrong in it is an EngineError."""
    try:
        connection = await _connect(sockets, database)
        try:
            yield Session(connection)
            await connection.close(timeout=_CLOSE_SECONDS)
        finally:
            connection.terminate()
    except asyncpg.PostgresError as error:
        raise _refusal(error, transient=_is_passing(error)) from error
    # The last is what the driver says when the server is killed between two of its own steps.
    except (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise _refusal(error, transient=True) from error


async def _connect(sockets: Path, database: str) -> Any:
    return await asyncpg.connect(
        host=str(sockets),
        port=5432,
        user=ADMIN,
        database=database,
        password="",  # none is asked for; without it a password file would be looked for
        ssl=False,
        timeout=_CONNECT_SECONDS,
        command_timeout=_STATEMENT_SECONDS,
        server_settings=_SETTINGS,
    )


def _is_passing(error: asyncpg.PostgresError) -> bool:
    return (error.sqlstate or "")[:2] in _PASSING and not isinstance(error, asyncpg.DiskFullError)


def _refusal(error: BaseException, *, transient: bool) -> EngineError:
    words = str(error).splitlines() or [type(error).__name__]
    return EngineError(f"The compute did not take our statements: {words[0].rstrip('.')}.", transient=transient)
