"""Changes to a branch's databases."""

from bough.domain.catalog_change import AlterDatabase, CreateDatabase, DropDatabase
from bough.engine.local.computes.session import ComputeSession
from bough.engine.port import EngineError
from bough.postgres import databases, subscriptions


async def create_database(ours: ComputeSession, change: CreateDatabase) -> None:
    if await _is_there(ours, change.name):
        await ours.execute(databases.set_owner(change.name, change.owner))
    else:
        await ours.execute(databases.create(change.name, change.owner))


async def alter_database(ours: ComputeSession, change: AlterDatabase) -> None:
    if await _is_there(ours, change.name):
        await _change_present(ours, change)
    elif await _is_there(ours, change.new_name):  # renamed by a try that did not come to its end
        await ours.execute(
            databases.allow_connections(change.new_name, allowed=True),
            databases.set_owner(change.new_name, change.owner),
        )
    else:
        raise EngineError(f"The branch has no database {change.name}: create it first.", transient=False)


async def drop_database(ours: ComputeSession, change: DropDatabase) -> None:
    followers = [
        name.decode(errors="replace") for (name,) in await ours.fetch(subscriptions.SELECT_IN_DATABASE, change.name)
    ]
    if followers:
        raise EngineError(
            f"The database {change.name} has the subscription {followers[0]}: drop that first.", transient=False
        )
    await ours.fetch(databases.TERMINATE_SESSIONS, change.name)  # who replicates from it, too; Postgres spares those
    await ours.execute(databases.drop(change.name))


async def _change_present(ours: ComputeSession, change: AlterDatabase) -> None:
    if change.new_name == change.name:
        await ours.execute(databases.set_owner(change.name, change.owner))
        return
    if await _is_there(ours, change.new_name):
        raise EngineError(f"The branch has a database {change.new_name} already: choose another name.", transient=False)
    await _rename(ours, change)


async def _rename(ours: ComputeSession, change: AlterDatabase) -> None:
    """Postgres waits some seconds for those who were cut off to be gone; nobody else comes in meanwhile."""
    await ours.execute(databases.allow_connections(change.name, allowed=False))
    try:
        await ours.fetch(databases.TERMINATE_SESSIONS, change.name)
        await ours.execute(*databases.rename(change.name, change.new_name, change.owner))
    except BaseException:
        await ours.execute(databases.allow_connections(change.name, allowed=True))
        raise


async def _is_there(ours: ComputeSession, name: str) -> bool:
    """One whose removal was cut off is removed to the end."""
    found = await ours.fetch(databases.IS_BROKEN, name)
    if found and found[0][0]:
        await ours.execute(databases.drop(name))
        return False
    return bool(found)
