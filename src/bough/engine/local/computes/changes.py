"""How a change is made in a compute that accepts connections. Each may be made twice and means the same."""

from pathlib import Path

from bough.domain.change import (
    Change,
    ChangeDatabase,
    DropDatabase,
    DropRole,
    Empty,
    MakeDatabase,
    MakeRole,
    Rekey,
    SetPassword,
    Unsubscribe,
)
from bough.engine.local.computes import database_changes, emptying, role_dropping, session
from bough.engine.local.computes.session import Session
from bough.engine.port import EngineError
from bough.postgres import output_plugins, roles, subscriptions


async def make(sockets: Path, change: Change, major: int) -> None:
    async with session.opened(sockets) as ours:
        match change:
            case MakeRole():
                await _make_role(ours, change, major)
            case SetPassword():
                await _set_password(ours, change)
            case DropRole():
                await role_dropping.drop(sockets, ours, change.name, major)
            case MakeDatabase():
                await database_changes.make(ours, change)
            case ChangeDatabase():
                await database_changes.alter(ours, change)
            case DropDatabase():
                await database_changes.drop(ours, change)
            case Rekey():
                await _rekey(ours, change)
            case Unsubscribe():
                await _unsubscribe(sockets, ours, major)
            case Empty():
                await emptying.empty(sockets, ours, major)


async def _make_role(ours: Session, change: MakeRole, major: int) -> None:
    [(exists,)] = await ours.rows(roles.EXISTS, change.name)
    made = roles.make(change.name, change.verifier, can_login=change.can_login, exists=exists, major=major)
    [(replicates,)] = await ours.rows(output_plugins.IS_ON)
    await ours.run(*made, *([output_plugins.GIVE] if replicates else []))


async def _set_password(ours: Session, change: SetPassword) -> None:
    [(exists,)] = await ours.rows(roles.EXISTS, change.name)
    if not exists:
        raise EngineError(f"The branch has no role {change.name}: create it first.", transient=False)
    await ours.run(roles.set_password(change.name, change.verifier))


async def _rekey(ours: Session, change: Rekey) -> None:
    """A role that SQL has dropped meanwhile needs no password."""
    present = {name for (name,) in await ours.rows(roles.NAMES, list(change.verifiers))}
    named = {name: verifier for name, verifier in change.verifiers.items() if name.encode() in present}
    before = () if change.others_keep else (roles.FORGET_PASSWORDS,)
    await ours.run(*before, *(roles.set_password(*each) for each in named.items()))


async def _unsubscribe(sockets: Path, ours: Session, major: int) -> None:
    await ours.run(subscriptions.PART)
    for (name,) in await ours.rows(subscriptions.DATABASES):
        if session.is_text(name):
            async with session.opened(sockets, name.decode(), major) as there:
                await there.run(subscriptions.FORGET_COPIES)
