"""How a change is made in a compute that accepts connections. Each may be made twice and means the same."""

from pathlib import Path

from bough.domain.catalog_change import (
    AlterDatabase,
    CatalogChange,
    CreateDatabase,
    CreateRole,
    DeleteAllRows,
    DisableSubscriptions,
    DropDatabase,
    DropRole,
    ReplacePasswords,
    SetPassword,
)
from bough.engine.local.computes import database_changes, role_deletion, session, truncation
from bough.engine.local.computes.session import ComputeSession
from bough.engine.port import EngineError
from bough.postgres import output_plugins, roles, subscriptions


async def apply_change(sockets: Path, change: CatalogChange, major: int) -> None:
    async with session.open_session(sockets) as ours:
        match change:
            case CreateRole():
                await _make_role(ours, change, major)
            case SetPassword():
                await _set_password(ours, change)
            case DropRole():
                await role_deletion.drop_role(sockets, ours, change.name, major)
            case CreateDatabase():
                await database_changes.create_database(ours, change)
            case AlterDatabase():
                await database_changes.alter_database(ours, change)
            case DropDatabase():
                await database_changes.drop_database(ours, change)
            case ReplacePasswords():
                await _rekey(ours, change)
            case DisableSubscriptions():
                await _unsubscribe(sockets, ours, major)
            case DeleteAllRows():
                await truncation.truncate_branch(sockets, ours, major)


async def _make_role(ours: ComputeSession, change: CreateRole, major: int) -> None:
    [(exists,)] = await ours.fetch(roles.EXISTS, change.name)
    made = roles.create_or_alter(change.name, change.verifier, can_login=change.can_login, exists=exists, major=major)
    [(replicates,)] = await ours.fetch(output_plugins.IS_LOGICAL_REPLICATION_ON)
    await ours.execute(*made, *([output_plugins.GRANT_REPLICATION] if replicates else []))


async def _set_password(ours: ComputeSession, change: SetPassword) -> None:
    [(exists,)] = await ours.fetch(roles.EXISTS, change.name)
    if not exists:
        raise EngineError(f"The branch has no role {change.name}: create it first.", transient=False)
    await ours.execute(roles.set_password(change.name, change.verifier))


async def _rekey(ours: ComputeSession, change: ReplacePasswords) -> None:
    """A role that SQL has dropped meanwhile needs no password."""
    present = {name for (name,) in await ours.fetch(roles.SELECT_NAMES, list(change.verifiers))}
    named = {name: verifier for name, verifier in change.verifiers.items() if name.encode() in present}
    before = () if change.keeps_others else (roles.CLEAR_PASSWORDS,)
    await ours.execute(*before, *(roles.set_password(*each) for each in named.items()))


async def _unsubscribe(sockets: Path, ours: ComputeSession, major: int) -> None:
    await ours.execute(subscriptions.DISABLE_ALL)
    for (name,) in await ours.fetch(subscriptions.SELECT_DATABASES):
        if session.is_utf8(name):
            async with session.open_session(sockets, name.decode(), major) as there:
                await there.execute(subscriptions.DELETE_UNSYNCED_TABLES)
