"""Rows of roles and databases follow what Postgres has: while a compute runs, its catalogs are the truth.

What was made with SQL gets a row, what was changed changes its row, and the row of what was dropped goes. While
a wish of the API is on its way to Postgres, and when rows changed between the look and the writing, nothing is
written: the next look sees how it ended.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from bough import clock
from bough.domain.database import Database, new
from bough.domain.endpoint import Endpoint, EndpointType
from bough.domain.role import Role
from bough.engine.port import Contents, DatabaseNow, Engine, RoleNow
from bough.engine.spec import ComputeSpec
from bough.ids import BranchId
from bough.store.store import Rows, Store


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

    @property
    def differs(self) -> bool:
        return {_seen(role) for role in self.known.roles} != set(self.now.roles) or {
            _owned(database) for database in self.known.databases
        } != set(self.now.databases)

    @property
    def role_names_differ(self) -> bool:
        return {role.name for role in self.known.roles} != {role.name for role in self.now.roles}


async def known(rows: Rows, branch_id: BranchId) -> Known:
    return Known(
        roles=tuple(await rows.roles.of_branch(branch_id)),
        databases=tuple(await rows.databases.of_branch(branch_id)),
    )


async def look(store: Store, engine: Engine, endpoint: Endpoint) -> Look | None:
    """None when its compute does not run, or only follows another one's."""
    if endpoint.type is not EndpointType.READ_WRITE:
        return None
    async with store.read() as rows:  # first: what the API changes after this is not written over
        before = await known(rows, endpoint.branch_id)
    now = await engine.contents(endpoint.id)
    return None if now is None else Look(branch_id=endpoint.branch_id, known=before, now=now)


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


async def _follow_roles(rows: Rows, branch_id: BranchId, present: Iterable[Role], seen: Iterable[RoleNow]) -> None:
    now = clock.now()
    by_name = {role.name: role for role in present}
    for each in seen:
        role = by_name.pop(each.name, None)
        if role is None:
            await rows.roles.add(_made(branch_id, each, now))
        elif _seen(role) != each:
            await rows.roles.save(_changed(role, each, now))
    for gone in by_name.values():
        await rows.roles.remove(branch_id, gone.name)


async def _follow_databases(
    rows: Rows, branch_id: BranchId, present: Iterable[Database], seen: Iterable[DatabaseNow]
) -> None:
    now = clock.now()
    by_name = {database.name: database for database in present}
    for each in seen:
        database = by_name.pop(each.name, None)
        if database is None:
            await rows.databases.add(new(branch_id, each.name, each.owner, now))
        elif database.owner_name != each.owner:
            await rows.databases.save(replace(database, owner_name=each.owner, updated_at=now))
    for gone in by_name.values():
        await rows.databases.remove(gone)


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
