"""Grant or revoke the attribute REPLICATION of tenant roles, as the project's setting for logical replication says.

Before the roles get the attribute, every database of the server is restricted to the allowed output plugins, so that
there is no moment without that restriction. The caller holds the volume's lock.
"""

from pathlib import Path

from bough import log
from bough.engine.local.computes.query_results import is_utf8
from bough.engine.local.computes.session import ComputeSession, open_session
from bough.postgres import output_plugins

logger = log.get_logger(component="engine")


async def ensure_enabled(sockets: Path, session: ComputeSession, major: int) -> None:
    [(mark,)] = await session.fetch(output_plugins.SELECT_MARK)
    if mark != output_plugins.ROLE_COMMENT and not await _restrict_all(sockets, session, major):
        return
    await session.execute(output_plugins.GRANT_REPLICATION, output_plugins.SET_ROLE_COMMENT)


async def ensure_disabled(session: ComputeSession) -> None:
    await session.execute(output_plugins.REVOKE_REPLICATION)


async def _restrict_all(sockets: Path, session: ComputeSession, major: int) -> bool:
    """Restrict each database once. Databases that are created later are copies of a restricted one.

    Return False when the platform cannot connect to a database because of its name.
    """
    restricted: set[int] = set()
    while True:
        await session.execute(output_plugins.WAIT_FOR_NEW_DATABASES)
        rows = {row["oid"]: row for row in await session.fetch(output_plugins.SELECT_DATABASES)}
        remaining = rows.keys() - restricted
        if not remaining:
            return True
        if not all(is_utf8(rows[oid]["name"]) for oid in remaining):
            logger.warning("logical_replication_withheld", reason="the name of a database is not UTF-8")
            return False
        for oid in sorted(remaining):
            name, allows_connections = rows[oid]["name"].decode(), rows[oid]["allows_connections"]
            await _restrict(sockets, session, name, major, allows_connections=allows_connections)
            restricted.add(oid)


async def _restrict(sockets: Path, session: ComputeSession, name: str, major: int, *, allows_connections: bool) -> None:
    """Temporarily allow connections to a database that does not allow them."""
    if not allows_connections:
        await session.execute(output_plugins.allow_connections(name))
    try:
        async with open_session(sockets, name, major) as database_session:
            await database_session.execute(output_plugins.INSTALL_PLUGIN_CHECK)
    finally:
        if not allows_connections or name == output_plugins.NO_CONNECTIONS_DATABASE:
            await session.execute(output_plugins.disallow_connections(name))
