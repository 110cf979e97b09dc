"""Synchronizes the rows of roles and databases with Postgres: while a compute runs, its catalogs are authoritative.

Objects created with SQL get a row, changed objects change their row, and the row of a dropped object is removed.
Nothing is written while a change requested through the API is pending, or when the rows changed after they were read:
the next inspection sees the result.

Roles and databases beyond the limit of the plan get no row. A role without a row cannot log in through the gateway.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from bough import clock
from bough.chunks import iterate_chunks
from bough.domain.database import Database, new_database
from bough.domain.role import Role
from bough.engine.port import BranchContents, ObservedDatabase, ObservedRole
from bough.engine.spec import ComputeSpec
from bough.ids import BranchId
from bough.operations.contents_inspection import ContentsInspection, load_contents, to_observed_role
from bough.store.store import Rows


async def sync_rows(rows: Rows, inspection: ContentsInspection) -> bool:
    """Write the changes; False when the rows have changed since and the compute must be inspected again."""
    stored = await load_contents(rows, inspection.branch_id)
    if stored != inspection.stored or stored.has_pending_changes:
        return False
    await _sync_roles(rows, inspection.branch_id, stored.roles, inspection.actual.roles)
    await _sync_databases(rows, inspection.branch_id, stored.databases, inspection.actual.databases)
    return True


async def inherit_contents(rows: Rows, branch_id: BranchId, parent: BranchContents, *, has_new_passwords: bool) -> None:
    """Give a new branch the roles and databases of its parent. With `has_new_passwords` only passwords that were
    created for the branch are kept.
    """
    own = await load_contents(rows, branch_id)
    pending = {role.name for role in own.roles if role.is_pending}
    stored = [role for role in own.roles if role.name not in pending]
    actual = [role for role in parent.roles if role.name not in pending]
    if has_new_passwords:
        actual = [replace(role, verifier=None) for role in actual]
    await _sync_roles(rows, branch_id, stored, actual)
    await _sync_databases(rows, branch_id, own.databases, parent.databases)


async def replace_contents(rows: Rows, branch_id: BranchId, actual: BranchContents) -> None:
    """Replace all roles and databases of a branch that got other data. Pending changes are dropped."""
    own = await load_contents(rows, branch_id)
    await _sync_roles(rows, branch_id, own.roles, actual.roles)
    await _sync_databases(rows, branch_id, own.databases, actual.databases)
    for role in await rows.roles.list_in_branch(branch_id):
        if role.is_pending:
            await rows.roles.mark_applied(branch_id, role.name, role.verifier, clock.now())


async def mark_applied(rows: Rows, spec: ComputeSpec) -> None:
    """Clear the pending marks of everything that the compute was started with."""
    now = clock.now()
    for name, verifier in spec.target_verifiers.items():
        await rows.roles.mark_applied(spec.branch_id, name, verifier, now)
    for database in spec.databases:
        await rows.databases.mark_applied(spec.branch_id, database.name, now)


async def _sync_roles(rows: Rows, branch_id: BranchId, stored: Iterable[Role], actual: Sequence[ObservedRole]) -> None:
    now = clock.now()
    by_name = {role.name: role for role in stored}
    added: list[Role] = []
    changed: list[Role] = []
    async for chunk in iterate_chunks(actual):
        for each in chunk:
            role = by_name.pop(each.name, None)
            if role is None:
                added.append(_new_role(branch_id, each, now))
            elif to_observed_role(role) != each:
                changed.append(_updated_role(role, each, now))
    await rows.roles.add_all(added)
    await rows.roles.save_all(changed)
    await rows.roles.remove_all(branch_id, list(by_name))


async def _sync_databases(
    rows: Rows, branch_id: BranchId, stored: Iterable[Database], actual: Sequence[ObservedDatabase]
) -> None:
    now = clock.now()
    by_name = {database.name: database for database in stored}
    added: list[Database] = []
    changed: list[Database] = []
    async for chunk in iterate_chunks(actual):
        for each in chunk:
            database = by_name.pop(each.name, None)
            if database is None:
                added.append(new_database(branch_id, each.name, each.owner, now))
            elif database.owner_name != each.owner:
                changed.append(replace(database, owner_name=each.owner, updated_at=now))
    await rows.databases.add_all(added)
    await rows.databases.save_all(changed)
    await rows.databases.remove_all(list(by_name.values()))


def _new_role(branch_id: BranchId, role: ObservedRole, now: datetime) -> Role:
    return Role(
        branch_id=branch_id,
        name=role.name,
        verifier=role.verifier,
        sealed_password=None,
        is_protected=False,
        created_at=now,
        updated_at=now,
        valid_until=role.valid_until,
        can_login=role.can_login,
    )


def _updated_role(role: Role, actual: ObservedRole, now: datetime) -> Role:
    """The stored password is dropped when the verifier has changed."""
    return replace(
        role,
        verifier=actual.verifier,
        valid_until=actual.valid_until,
        can_login=actual.can_login,
        sealed_password=role.sealed_password if role.verifier == actual.verifier else None,
        updated_at=now,
    )
