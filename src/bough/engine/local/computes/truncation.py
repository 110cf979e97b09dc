"""A branch keeps its structure and loses its rows, before anybody can open it."""

from pathlib import Path

from bough.engine.local.computes import session
from bough.engine.local.computes.session import ComputeSession, is_utf8
from bough.engine.port import EngineError
from bough.postgres import schema_only

# Each table is locked with its indexes in one transaction, because their foreign keys lead anywhere.
TRUNCATION_SETTINGS = {"max_locks_per_transaction": "4096", "autovacuum": "off", "lock_timeout": "0"}


async def truncate_branch(sockets: Path, ours: ComputeSession, major: int) -> None:
    for (name,) in await ours.fetch(schema_only.SELECT_DATABASES):
        if not is_utf8(name):
            raise EngineError(
                f"The database {name.decode(errors='replace')} has a name that is not UTF-8, so its rows cannot be "
                "taken out: rename it first.",
                transient=False,
            )
        async with session.open_session(sockets, name.decode(), major) as there:
            await _truncate_database(there)
    await ours.execute("checkpoint")


async def _truncate_database(there: ComputeSession) -> None:
    """Its triggers before its tables: later the session would remember them as they were."""
    for (prepared,) in await there.fetch(schema_only.SELECT_PREPARED_TRANSACTIONS):
        await there.execute(schema_only.rollback_prepared(prepared))
    triggers = [(row[0], row[1]) for row in await there.fetch(schema_only.SELECT_TRIGGERS)]
    tables = [(row[0], row[1]) for row in await there.fetch(schema_only.SELECT_TABLES)]
    partitioned = [(row[0], row[1]) for row in await there.fetch(schema_only.SELECT_PARTITIONED_TABLES)]
    await there.execute(*schema_only.truncate(tables, partitioned, triggers), "select")
    views = [(row[0], row[1]) for row in await there.fetch(schema_only.SELECT_MATERIALIZED_VIEWS)]
    sequences = [(row[0], row[1], row[2]) for row in await there.fetch(schema_only.SELECT_SEQUENCES)]
    await there.execute(*schema_only.unpopulate_views(views), *schema_only.restart_sequences(sequences), "select")
    await there.fetch(schema_only.UNLINK_LARGE_OBJECTS)
    await there.execute(*schema_only.DELETE_STATISTICS)
    for catalog in schema_only.REWRITTEN_CATALOGS:
        await there.execute(schema_only.rewrite_catalog(catalog))
