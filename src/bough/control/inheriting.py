"""What a branch has from its parent, as rows: roles with their passwords, and databases.

A child of a protected branch gets new passwords, so that whoever knows those of the parent cannot enter it, and
whoever is given those of the child cannot enter the parent.
"""

from dataclasses import dataclass, field, replace

from bough.access.vault import Vault
from bough.control import seeding
from bough.control.seeding import password_purpose
from bough.domain.branch import Branch
from bough.domain.database import Database, new
from bough.domain.role import Role
from bough.errors import PreconditionFailed
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Inheritance:
    roles: list[Role]
    databases: list[Database]
    passwords: dict[str, str] = field(default_factory=dict)  # role → password, where it is known


async def inherit(
    rows: Rows, parent: Branch, child: Branch, vault: Vault | None, *, rekeys: bool | None = None
) -> Inheritance:
    """`rekeys` says whether it gets new passwords, where that does not depend on whose they are."""
    given = Inheritance(roles=[], databases=[])
    rekeys = parent.is_protected if rekeys is None else rekeys
    for role in await rows.roles.of_branch(parent.id):
        inherited = await _rekeyed(role, child, vault, given) if rekeys else copied(role, child, vault, given)
        await rows.roles.add(inherited)
        given.roles.append(inherited)
    for database in await rows.databases.of_branch(parent.id):
        copy = new(child.id, database.name, database.owner_name, child.created_at)
        given.databases.append(await rows.databases.add(copy))
    return given


async def _rekeyed(role: Role, child: Branch, vault: Vault | None, given: Inheritance) -> Role:
    if not role.can_login:
        return replace(_renewed(role, child), verifier=None, sealed_password=None)
    secret = await seeding.new_secret()
    given.passwords[role.name] = secret.password
    return replace(
        seeding.new_role(child.id, role.name, secret, vault, child.created_at),
        is_protected=role.is_protected,
        valid_until=role.valid_until,
    )


def copied(role: Role, child: Branch, vault: Vault | None, given: Inheritance) -> Role:
    """Sealed anew: what is sealed opens for one role of one branch."""
    sealed = None
    if vault is not None and role.sealed_password is not None:
        try:
            password = vault.open(role.sealed_password, password_purpose(role.branch_id, role.name))
        except PreconditionFailed:  # the keys are others than it was sealed with: it is as good as not stored
            return replace(_renewed(role, child), sealed_password=None)
        given.passwords[role.name] = password
        sealed = vault.seal(password, password_purpose(child.id, role.name))
    return replace(_renewed(role, child), sealed_password=sealed)


def _renewed(role: Role, child: Branch) -> Role:
    return replace(role, branch_id=child.id, created_at=child.created_at, updated_at=child.created_at, is_wished=False)
