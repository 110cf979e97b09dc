"""A branch keeps its structure and loses its rows, before anybody can open it."""

from pathlib import Path

from bough.engine.local.computes import session
from bough.engine.local.computes.session import Session, is_text
from bough.engine.port import EngineError
from bough.postgres import emptying

# Each table is locked with its indexes in one transaction, because their foreign keys lead anywhere.
SETTINGS = {"max_locks_per_transaction": "4096", "autovacuum": "off", "lock_timeout": "0"}


async def empty(sockets: Path, ours: Session, major: int) -> None:
    for (name,) in await ours.rows(emptying.DATABASES):
        if not is_text(name):
            raise EngineError(
                f"The database {name.decode(errors='replace')} has a name that is not UTF-8, so its rows cannot be "
                "taken out: rename it first.",
                transient=False,
            )
        async with session.opened(sockets, name.decode(), major) as there:
            await _empty_one(there)
    await ours.run("checkpoint")


async def _empty_one(there: Session) -> None:
    """Its triggers before its tables: later the session would remember them as they were."""
    for (prepared,) in await there.rows(emptying.PREPARED):
        await there.run(emptying.roll_back(prepared))
    triggers = [(row[0], row[1]) for row in await there.rows(emptying.TRIGGERS)]
    tables = [(row[0], row[1]) for row in await there.rows(emptying.TABLES)]
    partitioned = [(row[0], row[1]) for row in await there.rows(emptying.PARTITIONED)]
    await there.run(*emptying.truncate(tables, partitioned, triggers), "select")
    views = [(row[0], row[1]) for row in await there.rows(emptying.VIEWS)]
    sequences = [(row[0], row[1], row[2]) for row in await there.rows(emptying.SEQUENCES)]
    await there.run(*emptying.unpopulate(views), *emptying.restart(sequences), "select")
    await there.rows(emptying.LARGE_OBJECTS)
    await there.run(*emptying.STATISTICS)
    for catalog in emptying.REWRITTEN:
        await there.run(emptying.rewrite(catalog))
