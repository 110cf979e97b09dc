"""The roles of a branch may replicate where its project asked for logical replication, and nowhere else.

Where they may, every database of the server lets them name allowed output plugins only. That is ensured before they
get the attribute, so that there is no moment in between. Whoever calls holds the volume's lock.
"""

from pathlib import Path

from bough import log
from bough.engine.local.computes import session
from bough.engine.local.computes.session import Session
from bough.postgres import output_plugins

logger = log.get(room="engine")


async def ensure_on(sockets: Path, ours: Session, major: int) -> None:
    [found] = await ours.rows(output_plugins.READ)
    if found["mark"] != output_plugins.MARK:
        is_limited = found["is_checked_by_postgres"] or await _limit_everywhere(sockets, ours, major)
        if not is_limited:
            return
    await ours.run(output_plugins.GIVE, output_plugins.WRITE_MARK)


async def ensure_off(ours: Session) -> None:
    """Roles that have it were made by a version that gave it to all, or by one of these."""
    await ours.run(output_plugins.TAKE)


async def _limit_everywhere(sockets: Path, ours: Session, major: int) -> bool:
    """In each database, once: those that are created later are copies of one that is limited.

    False when a database cannot be entered by us, because of its name; then nobody gets the attribute.
    """
    limited: set[int] = set()
    while True:
        await ours.run(output_plugins.AWAIT_NEW_DATABASES)
        found = {row["oid"]: row for row in await ours.rows(output_plugins.DATABASES)}
        left = found.keys() - limited
        if not left:
            return True
        if not all(session.is_text(found[oid]["name"]) for oid in left):
            logger.warning("logical_replication_withheld", reason="the name of a database is not UTF-8")
            return False
        for oid in sorted(left):
            await _limit(sockets, ours, found[oid]["name"].decode(), major, is_open=found[oid]["is_open"])
            limited.add(oid)


async def _limit(sockets: Path, ours: Session, name: str, major: int, *, is_open: bool) -> None:
    """One that is closed to everybody is opened for the moment."""
    if not is_open:
        await ours.run(output_plugins.open_to_all(name))
    try:
        async with session.opened(sockets, name, major) as there:
            await there.run(output_plugins.LIMIT)
    finally:
        if not is_open or name == output_plugins.CLOSED:
            await ours.run(output_plugins.close_to_all(name))
