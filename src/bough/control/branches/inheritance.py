"""What a branch has from its parent, as rows: roles with their passwords, and databases.

A child of a protected branch gets new passwords, so that whoever knows those of the parent cannot enter it, and
whoever is given those of the child cannot enter the parent.
"""

from dataclasses import dataclass, field, replace

from bough.access.vault import Vault
from bough.control.branches import new_rows
from bough.domain.branch import Branch
from bough.domain.database import Database, new_database
from bough.domain.role import Role, password_sealing_purpose
from bough.errors import PreconditionFailed
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class InheritedContents:
    roles: list[Role]
    databases: list[Database]
    passwords: dict[str, str] = field(default_factory=dict)  # role → password, where it is known


async def inherit(
    rows: Rows, parent: Branch, child: Branch, vault: Vault | None, *, with_new_passwords: bool | None = None
) -> InheritedContents:
    """`rekeys` says whether it gets new passwords, where that does not depend on whose they are."""
    given = InheritedContents(roles=[], databases=[])
    with_new_passwords = parent.is_protected if with_new_passwords is None else with_new_passwords
    for role in await rows.roles.list_in_branch(parent.id):
        inherited = (
            await _copy_role_with_new_password(role, child, vault, given)
            if with_new_passwords
            else copy_role(role, child, vault, given)
        )
        await rows.roles.add(inherited)
        given.roles.append(inherited)
    for database in await rows.databases.list_in_branch(parent.id):
        copy = new_database(child.id, database.name, database.owner_name, child.created_at)
        given.databases.append(await rows.databases.add(copy))
    return given


async def _copy_role_with_new_password(
    role: Role, child: Branch, vault: Vault | None, given: InheritedContents
) -> Role:
    if not role.can_login:
        return replace(_rebind_role(role, child), verifier=None, sealed_password=None)
    secret = await new_rows.generate_credentials()
    given.passwords[role.name] = secret.password
    return replace(
        new_rows.new_role(child.id, role.name, secret, vault, child.created_at),
        is_protected=role.is_protected,
        valid_until=role.valid_until,
    )


def copy_role(role: Role, child: Branch, vault: Vault | None, inherited: InheritedContents) -> Role:
    """Sealed anew: what is sealed opens for one role of one branch."""
    sealed = None
    if vault is not None and role.sealed_password is not None:
        try:
            password = vault.open(role.sealed_password, password_sealing_purpose(role.branch_id, role.name))
        except PreconditionFailed:  # the keys are others than it was sealed with: it is as good as not stored
            return replace(_rebind_role(role, child), sealed_password=None)
        inherited.passwords[role.name] = password
        sealed = vault.seal(password, password_sealing_purpose(child.id, role.name))
    return replace(_rebind_role(role, child), sealed_password=sealed)


def _rebind_role(role: Role, child: Branch) -> Role:
    return replace(role, branch_id=child.id, created_at=child.created_at, updated_at=child.created_at, is_pending=False)
