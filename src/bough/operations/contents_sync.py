"""Rows of roles and databases follow what Postgres has: while a compute runs, its catalogs are the truth.

What was made with SQL gets a row, what was changed changes its row, and the row of what was dropped goes. While
a wish of the API is on its way to Postgres, and when rows changed between the look and the writing, nothing is
written: the next look sees how it ended.

A tenant can make any number of them with SQL. Those beyond the plan's limit get no row: whoever has one keeps it, then
come the oldest. A gateway lets in nobody whose role has no row.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from bough import clock
from bough.chunks import iterate_chunks
from bough.config import Plan
from bough.domain.database import Database, new_database
from bough.domain.endpoint import Endpoint, EndpointType
from bough.domain.role import Role
from bough.engine.port import (
    MAX_LISTED,
    BranchContents,
    ContentsQuery,
    EngineInspection,
    ObservedDatabase,
    ObservedRole,
)
from bough.engine.spec import ComputeSpec
from bough.ids import BranchId
from bough.store.store import Rows, Store

T = TypeVar("T", Role, Database)
PlanLookup = Callable[[str], Plan]  # by their names


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredContents:
    """A branch's roles and databases, as rows."""

    roles: tuple[Role, ...]
    databases: tuple[Database, ...]

    @property
    def has_pending_changes(self) -> bool:
        return any(role.is_wished for role in self.roles) or any(each.is_wished for each in self.databases)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentsInspection:
    """The same as rows and as Postgres has them."""

    branch_id: BranchId
    stored: StoredContents
    actual: BranchContents
    has_changes: bool

    @property
    def has_role_name_changes(self) -> bool:
        return {role.name for role in self.stored.roles} != {role.name for role in self.actual.roles}


async def load_contents(rows: Rows, branch_id: BranchId) -> StoredContents:
    return StoredContents(
        roles=tuple(await rows.roles.list_in_branch(branch_id)),
        databases=tuple(await rows.databases.list_in_branch(branch_id)),
    )


async def inspect_contents(
    store: Store, engine: EngineInspection, endpoint: Endpoint, plans: PlanLookup | None = None
) -> ContentsInspection | None:
    """None when its compute does not run, or only follows another one's. Without plans there is no limit by them."""
    if endpoint.type is not EndpointType.READ_WRITE:
        return None
    async with store.read() as rows:  # first: what the API changes after this is not written over
        before = await load_contents(rows, endpoint.branch_id)
        plan = await rows.organizations.get_plan_of_project(endpoint.project_id) if plans else None
    now = await engine.read_compute_contents(endpoint.id, build_listing(before, plans, plan))
    if now is None:
        return None
    differs = not (
        await _is_same(before.roles, now.roles, _role_as_actual)
        and await _is_same(before.databases, now.databases, _database_as_actual)
    )
    return ContentsInspection(branch_id=endpoint.branch_id, stored=before, actual=now, has_changes=differs)


def build_listing(stored: StoredContents, plans: PlanLookup | None, plan_name: str | None) -> ContentsQuery:
    """What has a row keeps it, also when the plan has become smaller."""
    plan = plans(plan_name) if plans and plan_name else None
    return ContentsQuery(
        max_roles=_listing_limit(plan.roles if plan else MAX_LISTED, len(stored.roles)),
        max_databases=_listing_limit(plan.databases if plan else MAX_LISTED, len(stored.databases)),
        known_roles=tuple(role.name for role in stored.roles),
        known_databases=tuple(database.name for database in stored.databases),
    )


def _listing_limit(limit: int, present: int) -> int:
    return min(max(limit, present), MAX_LISTED)


async def _is_same(
    present: Sequence[T],
    now: Sequence[ObservedRole | ObservedDatabase],
    told: Callable[[T], ObservedRole | ObservedDatabase],
) -> bool:
    by_name = {each.name: each for each in now}
    async for some in iterate_chunks(present):
        if any(by_name.pop(each.name, None) != each for each in map(told, some)):
            return False
    return not by_name


async def sync_rows(rows: Rows, inspection: ContentsInspection) -> bool:
    """Write what changed, in a transaction; False when it has to be looked at again."""
    present = await load_contents(rows, inspection.branch_id)
    if present != inspection.stored or present.has_pending_changes:
        return False
    await _sync_roles(rows, inspection.branch_id, present.roles, inspection.actual.roles)
    await _sync_databases(rows, inspection.branch_id, present.databases, inspection.actual.databases)
    return True


async def inherit_contents(rows: Rows, branch_id: BranchId, parent: BranchContents, *, has_new_passwords: bool) -> None:
    """A new branch has what its parent had; when it is rekeyed, without the passwords that it was not given anew."""
    own = await load_contents(rows, branch_id)
    kept = {role.name for role in own.roles if role.is_wished}
    others = [role for role in own.roles if role.name not in kept]
    seen = [role for role in parent.roles if role.name not in kept]
    if has_new_passwords:
        seen = [replace(role, verifier=None) for role in seen]
    await _sync_roles(rows, branch_id, others, seen)
    await _sync_databases(rows, branch_id, own.databases, parent.databases)


async def replace_contents(rows: Rows, branch_id: BranchId, actual: BranchContents) -> None:
    """The branch has other data, and what is in it is known: nothing that was wished of it before is any more."""
    own = await load_contents(rows, branch_id)
    await _sync_roles(rows, branch_id, own.roles, actual.roles)
    await _sync_databases(rows, branch_id, own.databases, actual.databases)
    for role in await rows.roles.list_in_branch(branch_id):
        if role.is_wished:
            await rows.roles.mark_applied(branch_id, role.name, role.verifier, clock.now())


def to_contents(stored: StoredContents) -> BranchContents:
    """What rows say that Postgres has."""
    return BranchContents(
        roles=tuple(map(_role_as_actual, stored.roles)), databases=tuple(map(_database_as_actual, stored.databases))
    )


async def mark_applied(rows: Rows, spec: ComputeSpec) -> None:
    """What Postgres knows by now is no longer a wish."""
    now = clock.now()
    for name, verifier in spec.target_verifiers.items():
        await rows.roles.mark_applied(spec.branch_id, name, verifier, now)
    for database in spec.databases:
        await rows.databases.mark_applied(spec.branch_id, database.name, now)


async def _sync_roles(rows: Rows, branch_id: BranchId, present: Iterable[Role], seen: Sequence[ObservedRole]) -> None:
    now = clock.now()
    by_name = {role.name: role for role in present}
    made: list[Role] = []
    changed: list[Role] = []
    async for some in iterate_chunks(seen):
        for each in some:
            role = by_name.pop(each.name, None)
            if role is None:
                made.append(_new_role(branch_id, each, now))
            elif _role_as_actual(role) != each:
                changed.append(_updated_role(role, each, now))
    await rows.roles.add_all(made)
    await rows.roles.save_all(changed)
    await rows.roles.remove_all(branch_id, list(by_name))


async def _sync_databases(
    rows: Rows, branch_id: BranchId, present: Iterable[Database], seen: Sequence[ObservedDatabase]
) -> None:
    now = clock.now()
    by_name = {database.name: database for database in present}
    made: list[Database] = []
    changed: list[Database] = []
    async for some in iterate_chunks(seen):
        for each in some:
            database = by_name.pop(each.name, None)
            if database is None:
                made.append(new_database(branch_id, each.name, each.owner, now))
            elif database.owner_name != each.owner:
                changed.append(replace(database, owner_name=each.owner, updated_at=now))
    await rows.databases.add_all(made)
    await rows.databases.save_all(changed)
    await rows.databases.remove_all(list(by_name.values()))


def _role_as_actual(role: Role) -> ObservedRole:
    return ObservedRole(name=role.name, can_login=role.can_login, verifier=role.verifier, valid_until=role.valid_until)


def _database_as_actual(database: Database) -> ObservedDatabase:
    return ObservedDatabase(name=database.name, owner=database.owner_name)


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


def _updated_role(role: Role, seen: ObservedRole, now: datetime) -> Role:
    """A stored password is worth nothing once another verifier is in force."""
    return replace(
        role,
        verifier=seen.verifier,
        valid_until=seen.valid_until,
        can_login=seen.can_login,
        sealed_password=role.sealed_password if role.verifier == seen.verifier else None,
        updated_at=now,
    )
