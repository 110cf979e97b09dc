"""Changes to a branch's databases."""

from bough.domain.change import ChangeDatabase, DropDatabase, MakeDatabase
from bough.engine.local.computes.session import Session
from bough.engine.port import EngineError
from bough.postgres import databases, subscriptions


async def make(ours: Session, change: MakeDatabase) -> None:
    if await _is_there(ours, change.name):
        await ours.run(databases.set_owner(change.name, change.owner))
    else:
        await ours.run(databases.create(change.name, change.owner))


async def alter(ours: Session, change: ChangeDatabase) -> None:
    if await _is_there(ours, change.name):
        await _change_present(ours, change)
    elif await _is_there(ours, change.new_name):  # renamed by a try that did not come to its end
        await ours.run(
            databases.let_in(change.new_name, anybody=True), databases.set_owner(change.new_name, change.owner)
        )
    else:
        raise EngineError(f"The branch has no database {change.name}: create it first.", transient=False)


async def drop(ours: Session, change: DropDatabase) -> None:
    followers = [name.decode(errors="replace") for (name,) in await ours.rows(subscriptions.OF_DATABASE, change.name)]
    if followers:
        raise EngineError(
            f"The database {change.name} has the subscription {followers[0]}: drop that first.", transient=False
        )
    await ours.rows(databases.CUT_OFF, change.name)  # who replicates from it, too; Postgres spares those
    await ours.run(databases.drop(change.name))


async def _change_present(ours: Session, change: ChangeDatabase) -> None:
    if change.new_name == change.name:
        await ours.run(databases.set_owner(change.name, change.owner))
        return
    if await _is_there(ours, change.new_name):
        raise EngineError(f"The branch has a database {change.new_name} already: choose another name.", transient=False)
    await _rename(ours, change)


async def _rename(ours: Session, change: ChangeDatabase) -> None:
    """Postgres waits some seconds for those who were cut off to be gone; nobody else comes in meanwhile."""
    await ours.run(databases.let_in(change.name, anybody=False))
    try:
        await ours.rows(databases.CUT_OFF, change.name)
        await ours.run(*databases.rename(change.name, change.new_name, change.owner))
    except BaseException:
        await ours.run(databases.let_in(change.name, anybody=True))
        raise


async def _is_there(ours: Session, name: str) -> bool:
    """One whose removal was cut off is removed to the end."""
    found = await ours.rows(databases.IS_BROKEN, name)
    if found and found[0][0]:
        await ours.run(databases.drop(name))
        return False
    return bool(found)
