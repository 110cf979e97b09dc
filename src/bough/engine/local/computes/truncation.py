"""Delete all rows of a branch and keep its schema, before a client can connect to it."""

from pathlib import Path

from bough.engine.local.computes.query_results import is_utf8
from bough.engine.local.computes.session import ComputeSession, open_session
from bough.engine.port import EngineError
from bough.postgres import schema_only

# One transaction locks every table and index of a database, because foreign keys can connect any tables.
TRUNCATION_SETTINGS = {"max_locks_per_transaction": "4096", "autovacuum": "off", "lock_timeout": "0"}


async def truncate_branch(sockets: Path, session: ComputeSession, major: int) -> None:
    for (name,) in await session.fetch(schema_only.SELECT_DATABASES):
        if not is_utf8(name):
            raise EngineError(
                f"The name of the database {name.decode(errors='replace')} is not UTF-8, so its rows cannot be "
                "deleted: rename it first.",
                transient=False,
            )
        async with open_session(sockets, name.decode(), major) as database_session:
            await _truncate_database(database_session)
    await session.execute("checkpoint")


async def _truncate_database(session: ComputeSession) -> None:
    """Handle triggers before tables, because the session caches the triggers of a table that it has used."""
    for (prepared,) in await session.fetch(schema_only.SELECT_PREPARED_TRANSACTIONS):
        await session.execute(schema_only.rollback_prepared(prepared))
    triggers = [(row[0], row[1]) for row in await session.fetch(schema_only.SELECT_TRIGGERS)]
    tables = [(row[0], row[1]) for row in await session.fetch(schema_only.SELECT_TABLES)]
    partitioned = [(row[0], row[1]) for row in await session.fetch(schema_only.SELECT_PARTITIONED_TABLES)]
    await session.execute(*schema_only.truncate(tables, partitioned, triggers), "select")
    views = [(row[0], row[1]) for row in await session.fetch(schema_only.SELECT_MATERIALIZED_VIEWS)]
    sequences = [(row[0], row[1], row[2]) for row in await session.fetch(schema_only.SELECT_SEQUENCES)]
    await session.execute(*schema_only.unpopulate_views(views), *schema_only.restart_sequences(sequences), "select")
    await session.fetch(schema_only.UNLINK_LARGE_OBJECTS)
    await session.execute(*schema_only.DELETE_STATISTICS)
    for catalog in schema_only.REWRITTEN_CATALOGS:
        await session.execute(schema_only.rewrite_catalog(catalog))
