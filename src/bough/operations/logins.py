"""Rows of roles follow what Postgres has: while a compute runs, `pg_authid` is the truth.

A role made with SQL gets a row, a changed password changes its row, and the row of a role that is
dropped or may not log in any more goes. A row that is a wish waits for Postgres to be told. What changed
between the look and the writing is left for the next look.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from bough import clock
from bough.domain.endpoint import Endpoint, EndpointType
from bough.domain.role import Role
from bough.engine.port import Engine, Login
from bough.ids import BranchId
from bough.store.store import Rows, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A branch's roles, as rows and as Postgres has them."""

    branch_id: BranchId
    rows: Mapping[str, Role]
    logins: Mapping[str, Login]

    @property
    def changes(self) -> list[str]:
        """Names of roles whose rows are not as Postgres has them."""
        names = sorted(self.rows.keys() | self.logins.keys())
        return [name for name in names if self._differs(self.rows.get(name), self.logins.get(name))]

    @property
    def names_change(self) -> bool:
        return any((name in self.rows) != (name in self.logins) for name in self.changes)

    def _differs(self, role: Role | None, login: Login | None) -> bool:
        if role is None or login is None:
            return role is None or not role.is_wished
        same = (role.verifier, role.valid_until) == (login.verifier, login.valid_until)
        return not same and not role.is_wished


async def look(store: Store, engine: Engine, endpoint: Endpoint) -> Look | None:
    """None when its compute does not run, or only follows another one's."""
    if endpoint.type is not EndpointType.READ_WRITE:
        return None
    async with store.read() as rows:  # first: what the API changes after this is not written over
        known = await rows.roles.of_branch(endpoint.branch_id)
    logins = await engine.logins(endpoint.id)
    if logins is None:
        return None
    return Look(
        branch_id=endpoint.branch_id,
        rows={role.name: role for role in known},
        logins={login.name: login for login in logins},
    )


async def follow(rows: Rows, seen: Look) -> None:
    """Write what changed, in a transaction."""
    now = clock.now()
    present = {role.name: role for role in await rows.roles.of_branch(seen.branch_id)}
    for name in seen.changes:
        role, login = seen.rows.get(name), seen.logins.get(name)
        if present.get(name) != role:
            continue
        if login is None:
            assert role is not None
            await rows.roles.remove(role)
        elif role is None:
            await rows.roles.add(_made(seen.branch_id, login, now))
        else:
            await rows.roles.save(_changed(role, login, now))


async def told(rows: Rows, branch_id: BranchId, wishes: Mapping[str, str]) -> None:
    """Postgres knows these wishes (role → verifier) now."""
    for name, verifier in wishes.items():
        await rows.roles.set_told(branch_id, name, verifier, clock.now())


def _made(branch_id: BranchId, login: Login, now: datetime) -> Role:
    return Role(
        branch_id=branch_id,
        name=login.name,
        verifier=login.verifier,
        sealed_password=None,
        is_protected=False,
        created_at=now,
        updated_at=now,
        valid_until=login.valid_until,
    )


def _changed(role: Role, login: Login, now: datetime) -> Role:
    """A stored password is worth nothing once another verifier is in force."""
    kept = role.sealed_password if role.verifier == login.verifier else None
    return replace(role, verifier=login.verifier, valid_until=login.valid_until, sealed_password=kept, updated_at=now)
