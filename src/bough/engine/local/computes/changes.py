"""Apply a change to roles or databases in a running compute. Every change is idempotent."""

import asyncio
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
from bough.engine.local.computes import database_changes, role_deletion, truncation
from bough.engine.local.computes.query_results import is_utf8
from bough.engine.local.computes.session import ComputeSession, open_session
from bough.engine.local.isolation.system_users import SocketUsers
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.port import EngineError
from bough.postgres import output_plugins, pg_hba, roles, subscriptions


async def apply_change(sockets: Path, change: CatalogChange, major: int) -> None:
    async with open_session(sockets) as session:
        match change:
            case CreateRole():
                await _create_role(session, change, major)
            case SetPassword():
                await _set_password(session, change)
            case DropRole():
                await role_deletion.drop_role(sockets, session, change.name, major)
            case CreateDatabase():
                await database_changes.create_database(session, change)
            case AlterDatabase():
                await database_changes.alter_database(session, change)
            case DropDatabase():
                await database_changes.drop_database(session, change)
            case ReplacePasswords():
                await _replace_passwords(session, change)
            case DisableSubscriptions():
                await _disable_subscriptions(sockets, session, major)
            case DeleteAllRows():
                await truncation.truncate_branch(sockets, session, major)


async def add_to_ident_map(role: str, folder: VolumeFolder, sockets: Path, socket_users: SocketUsers) -> None:
    """Allow a new role to log in through the socket. Before Postgres 16 pg_ident.conf lists every role.

    The appended lines are replaced when the next start writes the file from the whole spec.
    """
    lines = pg_hba.render_ident_lines(role, control_user=socket_users.control, gateway_user=socket_users.gateway)
    text = await asyncio.to_thread((folder.conf / pg_hba.IDENT_FILE).read_text)
    if lines not in text:
        await run_shielded(lambda: folder.write_conf(pg_hba.IDENT_FILE, text + lines, folder.owner))
    async with open_session(sockets) as session:
        await session.reload()


async def _create_role(session: ComputeSession, change: CreateRole, major: int) -> None:
    [(exists,)] = await session.fetch(roles.EXISTS, change.name)
    statements = roles.create_or_alter(
        change.name, change.verifier, can_login=change.can_login, exists=exists, major=major
    )
    [(has_replication,)] = await session.fetch(output_plugins.IS_LOGICAL_REPLICATION_ON)
    await session.execute(*statements, *([output_plugins.GRANT_REPLICATION] if has_replication else []))


async def _set_password(session: ComputeSession, change: SetPassword) -> None:
    [(exists,)] = await session.fetch(roles.EXISTS, change.name)
    if not exists:
        raise EngineError(f"The branch has no role {change.name}: create it first.", transient=False)
    await session.execute(roles.set_password(change.name, change.verifier))


async def _replace_passwords(session: ComputeSession, change: ReplacePasswords) -> None:
    """Skip roles that a tenant dropped with SQL in the meantime."""
    existing = {name for (name,) in await session.fetch(roles.SELECT_NAMES, list(change.verifiers))}
    verifiers = {name: verifier for name, verifier in change.verifiers.items() if name.encode() in existing}
    clear = () if change.keeps_others else (roles.CLEAR_PASSWORDS,)
    await session.execute(*clear, *(roles.set_password(name, verifier) for name, verifier in verifiers.items()))


async def _disable_subscriptions(sockets: Path, session: ComputeSession, major: int) -> None:
    await session.execute(subscriptions.DISABLE_ALL)
    for (name,) in await session.fetch(subscriptions.SELECT_DATABASES):
        if is_utf8(name):
            async with open_session(sockets, name.decode(), major) as database_session:
                await database_session.execute(subscriptions.DELETE_UNSYNCED_TABLES)
