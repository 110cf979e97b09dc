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
from bough.chunks import chunks
from bough.config import Plan
from bough.domain.database import Database, new
from bough.domain.endpoint import Endpoint, EndpointType
from bough.domain.role import Role
from bough.engine.port import MOST_LISTED, Contents, DatabaseNow, Engine, Listing, RoleNow
from bough.engine.spec import ComputeSpec
from bough.ids import BranchId
from bough.store.store import Rows, Store

T = TypeVar("T", Role, Database)
Plans = Callable[[str], Plan]  # by their names


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A branch's roles and databases, as rows."""

    roles: tuple[Role, ...]
    databases: tuple[Database, ...]

    @property
    def has_wishes(self) -> bool:
        return any(role.is_wished for role in self.roles) or any(each.is_wished for each in self.databases)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The same as rows and as Postgres has them."""

    branch_id: BranchId
    known: Known
    now: Contents
    differs: bool

    @property
    def role_names_differ(self) -> bool:
        return {role.name for role in self.known.roles} != {role.name for role in self.now.roles}


async def known(rows: Rows, branch_id: BranchId) -> Known:
    return Known(
        roles=tuple(await rows.roles.of_branch(branch_id)),
        databases=tuple(await rows.databases.of_branch(branch_id)),
    )


async def look(store: Store, engine: Engine, endpoint: Endpoint, plans: Plans | None = None) -> Look | None:
    """None when its compute does not run, or only follows another one's. Without plans there is no limit by them."""
    if endpoint.type is not EndpointType.READ_WRITE:
        return None
    async with store.read() as rows:  # first: what the API changes after this is not written over
        before = await known(rows, endpoint.branch_id)
        plan = await rows.organizations.plan_of(endpoint.project_id) if plans else None
    now = await engine.contents(endpoint.id, listing(before, plans, plan))
    if now is None:
        return None
    differs = not (
        await _is_same(before.roles, now.roles, _seen) and await _is_same(before.databases, now.databases, _owned)
    )
    return Look(branch_id=endpoint.branch_id, known=before, now=now, differs=differs)


def listing(before: Known, plans: Plans | None, name: str | None) -> Listing:
    """What has a row keeps it, also when the plan has become smaller."""
    plan = plans(name) if plans and name else None
    return Listing(
        roles=_most(plan.roles if plan else MOST_LISTED, len(before.roles)),
        databases=_most(plan.databases if plan else MOST_LISTED, len(before.databases)),
        known_roles=tuple(role.name for role in before.roles),
        known_databases=tuple(database.name for database in before.databases),
    )


def _most(limit: int, present: int) -> int:
    return min(max(limit, present), MOST_LISTED)


async def _is_same(
    present: Sequence[T], now: Sequence[RoleNow | DatabaseNow], told: Callable[[T], RoleNow | DatabaseNow]
) -> bool:
    by_name = {each.name: each for each in now}
    async for some in chunks(present):
        if any(by_name.pop(each.name, None) != each for each in map(told, some)):
            return False
    return not by_name


async def follow(rows: Rows, seen: Look) -> bool:
    """Write what changed, in a transaction; False when it has to be looked at again."""
    present = await known(rows, seen.branch_id)
    if present != seen.known or present.has_wishes:
        return False
    await _follow_roles(rows, seen.branch_id, present.roles, seen.now.roles)
    await _follow_databases(rows, seen.branch_id, present.databases, seen.now.databases)
    return True


async def begin_with(rows: Rows, branch_id: BranchId, parent: Contents, *, rekeyed: bool) -> None:
    """A new branch has what its parent had; when it is rekeyed, without the passwords that it was not given anew."""
    own = await known(rows, branch_id)
    kept = {role.name for role in own.roles if role.is_wished}
    others = [role for role in own.roles if role.name not in kept]
    seen = [role for role in parent.roles if role.name not in kept]
    if rekeyed:
        seen = [replace(role, verifier=None) for role in seen]
    await _follow_roles(rows, branch_id, others, seen)
    await _follow_databases(rows, branch_id, own.databases, parent.databases)


async def become(rows: Rows, branch_id: BranchId, seen: Contents) -> None:
    """The branch has other data, and what is in it is known: nothing that was wished of it before is any more."""
    own = await known(rows, branch_id)
    await _follow_roles(rows, branch_id, own.roles, seen.roles)
    await _follow_databases(rows, branch_id, own.databases, seen.databases)
    for role in await rows.roles.of_branch(branch_id):
        if role.is_wished:
            await rows.roles.set_told(branch_id, role.name, role.verifier, clock.now())


def as_known(own: Known) -> Contents:
    """What rows say that Postgres has."""
    return Contents(roles=tuple(map(_seen, own.roles)), databases=tuple(map(_owned, own.databases)))


async def told(rows: Rows, spec: ComputeSpec) -> None:
    """What Postgres knows by now is no longer a wish."""
    now = clock.now()
    for name, verifier in spec.wished_roles.items():
        await rows.roles.set_told(spec.branch_id, name, verifier, now)
    for database in spec.databases:
        await rows.databases.set_told(spec.branch_id, database.name, now)


async def _follow_roles(rows: Rows, branch_id: BranchId, present: Iterable[Role], seen: Sequence[RoleNow]) -> None:
    now = clock.now()
    by_name = {role.name: role for role in present}
    made: list[Role] = []
    changed: list[Role] = []
    async for some in chunks(seen):
        for each in some:
            role = by_name.pop(each.name, None)
            if role is None:
                made.append(_made(branch_id, each, now))
            elif _seen(role) != each:
                changed.append(_changed(role, each, now))
    await rows.roles.add_all(made)
    await rows.roles.save_all(changed)
    await rows.roles.remove_all(branch_id, list(by_name))


async def _follow_databases(
    rows: Rows, branch_id: BranchId, present: Iterable[Database], seen: Sequence[DatabaseNow]
) -> None:
    now = clock.now()
    by_name = {database.name: database for database in present}
    made: list[Database] = []
    changed: list[Database] = []
    async for some in chunks(seen):
        for each in some:
            database = by_name.pop(each.name, None)
            if database is None:
                made.append(new(branch_id, each.name, each.owner, now))
            elif database.owner_name != each.owner:
                changed.append(replace(database, owner_name=each.owner, updated_at=now))
    await rows.databases.add_all(made)
    await rows.databases.save_all(changed)
    await rows.databases.remove_all(list(by_name.values()))


def _seen(role: Role) -> RoleNow:
    return RoleNow(name=role.name, can_login=role.can_login, verifier=role.verifier, valid_until=role.valid_until)


def _owned(database: Database) -> DatabaseNow:
    return DatabaseNow(name=database.name, owner=database.owner_name)


def _made(branch_id: BranchId, role: RoleNow, now: datetime) -> Role:
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


def _changed(role: Role, seen: RoleNow, now: datetime) -> Role:
    """A stored password is worth nothing once another verifier is in force."""
    return replace(
        role,
        verifier=seen.verifier,
        valid_until=seen.valid_until,
        can_login=seen.can_login,
        sealed_password=role.sealed_password if role.verifier == seen.verifier else None,
        updated_at=now,
    )
