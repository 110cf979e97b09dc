"""Create, alter and drop databases of a branch."""

from bough.domain.catalog_change import AlterDatabase, CreateDatabase, DropDatabase
from bough.engine.local.computes.session import ComputeSession
from bough.engine.port import EngineError
from bough.postgres import databases, subscriptions


async def create_database(session: ComputeSession, change: CreateDatabase) -> None:
    if await _database_exists(session, change.name):
        await session.execute(databases.set_owner(change.name, change.owner))
    else:
        await session.execute(databases.create(change.name, change.owner))


async def alter_database(session: ComputeSession, change: AlterDatabase) -> None:
    if await _database_exists(session, change.name):
        await _alter_existing(session, change)
    elif await _database_exists(session, change.new_name):  # an earlier attempt renamed it and was interrupted
        await session.execute(
            databases.allow_connections(change.new_name, allowed=True),
            databases.set_owner(change.new_name, change.owner),
        )
    else:
        raise EngineError(f"The branch has no database {change.name}: create it first.", transient=False)


async def drop_database(session: ComputeSession, change: DropDatabase) -> None:
    names = [
        name.decode(errors="replace") for (name,) in await session.fetch(subscriptions.SELECT_IN_DATABASE, change.name)
    ]
    if names:
        raise EngineError(
            f"The database {change.name} has the subscription {names[0]}: drop that first.", transient=False
        )
    # DROP DATABASE … WITH (FORCE) does not terminate replication connections.
    await session.fetch(databases.TERMINATE_SESSIONS, change.name)
    await session.execute(databases.drop(change.name))


async def _alter_existing(session: ComputeSession, change: AlterDatabase) -> None:
    if change.new_name == change.name:
        await session.execute(databases.set_owner(change.name, change.owner))
        return
    if await _database_exists(session, change.new_name):
        raise EngineError(f"The branch already has a database {change.new_name}: choose another name.", transient=False)
    await _rename(session, change)


async def _rename(session: ComputeSession, change: AlterDatabase) -> None:
    """Block new connections while Postgres waits a few seconds for terminated sessions to end."""
    await session.execute(databases.allow_connections(change.name, allowed=False))
    try:
        await session.fetch(databases.TERMINATE_SESSIONS, change.name)
        await session.execute(*databases.rename(change.name, change.new_name, change.owner))
    except BaseException:
        await session.execute(databases.allow_connections(change.name, allowed=True))
        raise


async def _database_exists(session: ComputeSession, name: str) -> bool:
    """Finish an interrupted DROP DATABASE first."""
    rows = await session.fetch(databases.IS_BROKEN, name)
    if rows and rows[0][0]:
        await session.execute(databases.drop(name))
        return False
    return bool(rows)
