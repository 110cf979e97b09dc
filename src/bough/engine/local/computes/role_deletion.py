"""Drop a role. Its objects go to the owner of their database, and its privileges are revoked."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bough import clock
from bough.engine.local.computes.query_results import is_utf8
from bough.engine.local.computes.session import ComputeSession, open_session
from bough.engine.port import EngineError
from bough.postgres import MAINTENANCE_DATABASE, databases, roles

_TERMINATION_TIMEOUT = 5.0
_POLL_INTERVAL = 0.01
_GRANT_OPTIONS_SINCE = 16  # from this version on a membership has a grantor and options of its own


async def drop_role(sockets: Path, session: ComputeSession, name: str, major: int) -> None:
    rows = await session.fetch(roles.CAN_LOGIN, name)
    if not rows:
        return
    await _check_owns_no_database(session, name)
    used_databases = await session.fetch(roles.SELECT_DATABASES_WITH_OBJECTS, name)
    for database in used_databases:
        _check_open(name, database)
    async with _block_logins(session, name, can_login=rows[0][0]):
        for database in used_databases:
            if database["name"].decode() != MAINTENANCE_DATABASE:
                new_owner = None if database["is_ours"] else database["owner"].decode()
                async with open_session(sockets, database["name"].decode(), major) as database_session:
                    await database_session.execute(*roles.reassign_and_drop_owned(name, new_owner))
        regrants = await _build_regrants(session, name) if major >= _GRANT_OPTIONS_SINCE else []
        await session.execute(*regrants, *roles.reassign_and_drop_owned(name, None), roles.drop(name))


async def _check_owns_no_database(session: ComputeSession, name: str) -> None:
    owned = [database.decode(errors="replace") for (database,) in await session.fetch(databases.SELECT_OWNED, name)]
    if owned:
        raise EngineError(
            f"The role {name} owns the database {owned[0]}: change the owner of the database, or delete the database "
            "first.",
            transient=False,
        )


def _check_open(name: str, database: Any) -> None:
    if not (database["allows_connections"] and is_utf8(database["name"], database["owner"])):
        raise EngineError(
            f"The role {name} has objects or privileges in the database "
            f"{database['name'].decode(errors='replace')}, which cannot be connected to: "
            "allow connections to it, or drop it first.",
            transient=False,
        )


@asynccontextmanager
async def _block_logins(session: ComputeSession, name: str, *, can_login: bool) -> AsyncIterator[None]:
    """Keep out sessions of the role, which could hold locks or create objects that prevent dropping it."""
    await session.execute(roles.set_login(name, can_login=False))
    try:
        await _terminate_sessions(session, name)
        yield
    except BaseException:
        await session.execute(roles.set_login(name, can_login=can_login))
        raise


async def _terminate_sessions(session: ComputeSession, name: str) -> None:
    await session.fetch(roles.TERMINATE_SESSIONS, name)
    deadline = clock.monotonic() + _TERMINATION_TIMEOUT
    while (await session.fetch(roles.HAS_SESSIONS, name))[0][0]:
        if clock.monotonic() >= deadline:
            raise EngineError(f"The sessions of the role {name} do not end: try again later.")
        await asyncio.sleep(_POLL_INTERVAL)


async def _build_regrants(session: ComputeSession, name: str) -> list[str]:
    """Grant the memberships that the role granted again, as the superuser.

    Memberships of roles whose names are not UTF-8 are lost.
    """
    return [
        roles.grant_membership(
            row["role"].decode(),
            row["member"].decode(),
            admin=row["admin_option"],
            inherit=row["inherit_option"],
            set_role=row["set_option"],
        )
        for row in await session.fetch(roles.SELECT_GRANTED_MEMBERSHIPS, name)
        if is_utf8(row["role"], row["member"])
    ]
