"""Copies the rows of roles and databases from a parent branch to its child.

A child of a protected branch gets new passwords, so that the parent's passwords do not give access to the child, and
the child's do not give access to the parent.
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
    passwords: dict[str, str] = field(default_factory=dict)  # role → password, where known


async def inherit(
    rows: Rows, parent: Branch, child: Branch, vault: Vault | None, *, with_new_passwords: bool | None = None
) -> InheritedContents:
    """Copy the rows. `with_new_passwords` overrides the default, which is new passwords for a protected parent."""
    inherited = InheritedContents(roles=[], databases=[])
    with_new_passwords = parent.is_protected if with_new_passwords is None else with_new_passwords
    for role in await rows.roles.list_in_branch(parent.id):
        role_copy = (
            await _copy_role_with_new_password(role, child, vault, inherited)
            if with_new_passwords
            else copy_role(role, child, vault, inherited)
        )
        await rows.roles.add(role_copy)
        inherited.roles.append(role_copy)
    for database in await rows.databases.list_in_branch(parent.id):
        copy = new_database(child.id, database.name, database.owner_name, child.created_at)
        inherited.databases.append(await rows.databases.add(copy))
    return inherited


async def _copy_role_with_new_password(
    role: Role, child: Branch, vault: Vault | None, inherited: InheritedContents
) -> Role:
    if not role.can_login:
        return replace(_rebind_role(role, child), verifier=None, sealed_password=None)
    credentials = await new_rows.generate_credentials()
    inherited.passwords[role.name] = credentials.password
    return replace(
        new_rows.new_role(child.id, role.name, credentials, vault, child.created_at),
        is_protected=role.is_protected,
        valid_until=role.valid_until,
    )


def copy_role(role: Role, child: Branch, vault: Vault | None, inherited: InheritedContents) -> Role:
    """Copy the role and reseal its password, because a sealed password is bound to one role of one branch."""
    sealed = None
    if vault is not None and role.sealed_password is not None:
        try:
            password = vault.open(role.sealed_password, password_sealing_purpose(role.branch_id, role.name))
        except PreconditionFailed:  # sealed with other keys: treat the password as not stored
            return replace(_rebind_role(role, child), sealed_password=None)
        inherited.passwords[role.name] = password
        sealed = vault.seal(password, password_sealing_purpose(child.id, role.name))
    return replace(_rebind_role(role, child), sealed_password=sealed)


def _rebind_role(role: Role, child: Branch) -> Role:
    return replace(role, branch_id=child.id, created_at=child.created_at, updated_at=child.created_at, is_pending=False)
