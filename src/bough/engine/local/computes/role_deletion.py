"""A role goes. What it owned in a database belongs to the database's owner, and what it had there is taken back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bough import clock
from bough.engine.local.computes import session
from bough.engine.local.computes.session import ComputeSession, is_utf8
from bough.engine.port import EngineError
from bough.postgres import MAINTENANCE_DATABASE, databases, roles

_ENDING_SECONDS = 5.0
_LOOK = 0.01  # seconds between looks whether sessions are gone
_KNOWS_TERMS = 16  # from then on a membership has a giver and terms


async def drop_role(sockets: Path, ours: ComputeSession, name: str, major: int) -> None:
    found = await ours.fetch(roles.CAN_LOGIN, name)
    if not found:
        return
    await _check_owns_no_database(ours, name)
    held = await ours.fetch(roles.SELECT_DATABASES_WITH_OBJECTS, name)
    for database in held:
        _check_open(name, database)
    async with _block_logins(ours, name, can_login=found[0][0]):
        for database in held:
            if database["name"].decode() != MAINTENANCE_DATABASE:
                async with session.open_session(sockets, database["name"].decode(), major) as there:
                    await there.execute(
                        *roles.reassign_and_drop_owned(
                            name, None if database["is_ours"] else database["owner"].decode()
                        )
                    )
        given = await _build_regrants(ours, name) if major >= _KNOWS_TERMS else []
        await ours.execute(*given, *roles.reassign_and_drop_owned(name, None), roles.drop(name))


async def _check_owns_no_database(ours: ComputeSession, name: str) -> None:
    owned = [database.decode(errors="replace") for (database,) in await ours.fetch(databases.SELECT_OWNED, name)]
    if owned:
        raise EngineError(
            f"The role {name} owns the database {owned[0]}: give that another owner, or delete it first.",
            transient=False,
        )


def _check_open(name: str, database: Any) -> None:
    if not (database["is_open"] and is_utf8(database["name"], database["owner"])):
        raise EngineError(
            f"The role {name} has something in the database {database['name'].decode(errors='replace')}, "
            "which cannot be connected to: allow connections to it, or drop it first.",
            transient=False,
        )


@asynccontextmanager
async def _block_logins(ours: ComputeSession, name: str, *, can_login: bool) -> AsyncIterator[None]:
    """Nobody is in as the role, nor comes in: who was would hold locks, or make something that keeps the role."""
    await ours.execute(roles.set_login(name, can_login=False))
    try:
        await _end_sessions(ours, name)
        yield
    except BaseException:
        await ours.execute(roles.set_login(name, can_login=can_login))
        raise


async def _end_sessions(ours: ComputeSession, name: str) -> None:
    await ours.fetch(roles.TERMINATE_SESSIONS, name)
    until = clock.monotonic() + _ENDING_SECONDS
    while (await ours.fetch(roles.HAS_SESSIONS, name))[0][0]:
        if clock.monotonic() >= until:
            raise EngineError(f"The sessions of the role {name} do not end: try again later.")
        await asyncio.sleep(_LOOK)


async def _build_regrants(ours: ComputeSession, name: str) -> list[str]:
    """Memberships that the role gave are ours from now on; of names that we cannot write they are lost."""
    return [
        roles.grant_membership(
            row["role"].decode(),
            row["member"].decode(),
            admin=row["admin_option"],
            inherit=row["inherit_option"],
            become=row["set_option"],
        )
        for row in await ours.fetch(roles.SELECT_GRANTED_MEMBERSHIPS, name)
        if is_utf8(row["role"], row["member"])
    ]
