"""The roles of a branch may replicate where its project asked for logical replication, and nowhere else.

Where they may, every database of the server lets them name allowed output plugins only. That is ensured before they
get the attribute, so that there is no moment in between. Whoever calls holds the volume's lock.
"""

from pathlib import Path

from bough import log
from bough.engine.local.computes import session
from bough.engine.local.computes.session import ComputeSession
from bough.postgres import output_plugins

logger = log.get_logger(component="engine")


async def ensure_enabled(sockets: Path, ours: ComputeSession, major: int) -> None:
    [found] = await ours.fetch(output_plugins.SELECT_STATE)
    if found["mark"] != output_plugins.ROLE_COMMENT:
        is_limited = found["is_checked_by_postgres"] or await _limit_everywhere(sockets, ours, major)
        if not is_limited:
            return
    await ours.execute(output_plugins.GRANT_REPLICATION, output_plugins.SET_ROLE_COMMENT)


async def ensure_disabled(ours: ComputeSession) -> None:
    """Roles that have it were made by a version that gave it to all, or by one of these."""
    await ours.execute(output_plugins.REVOKE_REPLICATION)


async def _limit_everywhere(sockets: Path, ours: ComputeSession, major: int) -> bool:
    """In each database, once: those that are created later are copies of one that is limited.

    False when a database cannot be entered by us, because of its name; then nobody gets the attribute.
    """
    limited: set[int] = set()
    while True:
        await ours.execute(output_plugins.WAIT_FOR_NEW_DATABASES)
        found = {row["oid"]: row for row in await ours.fetch(output_plugins.SELECT_DATABASES)}
        left = found.keys() - limited
        if not left:
            return True
        if not all(session.is_utf8(found[oid]["name"]) for oid in left):
            logger.warning("logical_replication_withheld", reason="the name of a database is not UTF-8")
            return False
        for oid in sorted(left):
            await _limit(sockets, ours, found[oid]["name"].decode(), major, is_open=found[oid]["is_open"])
            limited.add(oid)


async def _limit(sockets: Path, ours: ComputeSession, name: str, major: int, *, is_open: bool) -> None:
    """One that is closed to everybody is opened for the moment."""
    if not is_open:
        await ours.execute(output_plugins.allow_connections(name))
    try:
        async with session.open_session(sockets, name, major) as there:
            await there.execute(output_plugins.INSTALL_PLUGIN_CHECK)
    finally:
        if not is_open or name == output_plugins.CLOSED_DATABASE:
            await ours.execute(output_plugins.disallow_connections(name))
