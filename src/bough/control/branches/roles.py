"""Roles of a branch: create, delete, reset and reveal a password."""

from dataclasses import replace

from bough import clock
from bough.access import lookup
from bough.control.branches import new_rows
from bough.control.branches.contents import enqueue_change, locked_branch
from bough.control.context import Context
from bough.domain import role as roles
from bough.domain.catalog_change import CreateRole, DropRole, SetPassword
from bough.domain.operation import Operation
from bough.domain.project import Project
from bough.domain.role import Role, password_sealing_purpose
from bough.engine.port import MAX_LISTED
from bough.errors import Conflict, NotFound, PreconditionFailed, RuleViolation
from bough.ids import BranchId


async def create_role(
    context: Context, project: Project, branch_id: BranchId, name: str, *, can_login: bool
) -> tuple[Role, str | None, list[Operation]]:
    """Create a role; return it with its password, which is None if it may not log in."""
    roles.check_name(name)
    context.audit.add_details(resource=f"{branch_id}/{name}")
    credentials = await new_rows.generate_credentials() if can_login else None
    async with locked_branch(context, project, branch_id) as (rows, branch):
        known = await rows.roles.list_in_branch(branch.id)
        if name in {role.name for role in known}:
            raise Conflict(f"The branch already has a role {name!r}. Choose another name, or reset its password.")
        limit = min((await context.load_project_plan(rows, project)).roles, MAX_LISTED)
        if len(known) >= limit:
            raise RuleViolation(
                f"The branch has {limit} roles, the limit of its plan. Delete one, or change the plan.",
                code="ROLES_LIMIT_EXCEEDED",
            )
        vault = context.services.vault if project.store_passwords else None
        role = new_rows.new_role(branch.id, name, credentials, vault, clock.now())
        await rows.roles.add(role)
        operations = await enqueue_change(context, rows, branch, CreateRole(name=name, can_login=can_login))
    return role, credentials.password if credentials else None, operations


async def delete_role(
    context: Context, project: Project, branch_id: BranchId, name: str
) -> tuple[Role, list[Operation]] | None:
    """Delete the role. The database owner takes over its objects. Returns None if there is no such role."""
    async with locked_branch(context, project, branch_id) as (rows, branch):
        role = await rows.roles.get(branch.id, name)
        if role is None:
            context.audit.discard()
            return None
        owned = [each.name for each in await rows.databases.list_in_branch(branch.id) if each.owner_name == name]
        if owned:
            raise RuleViolation(
                f"The role {name!r} owns the database {owned[0]!r}. Change the owner of the database, or delete the "
                "database first."
            )
        operations = await enqueue_change(context, rows, branch, DropRole(name=name))
    await _invalidate_gateways(context, branch_id)
    return role, operations


async def reset_role_password(
    context: Context, project: Project, branch_id: BranchId, name: str
) -> tuple[Role, str, list[Operation]]:
    """Replace the password. New connections must use the new one."""
    credentials = await new_rows.generate_credentials()
    async with locked_branch(context, project, branch_id) as (rows, branch):
        role = await rows.roles.get(branch.id, name)
        if role is None:
            raise NotFound.resource("role")
        if not role.can_login:
            raise RuleViolation(f"The role {name!r} may not log in, so it has no password.")
        purpose = password_sealing_purpose(branch.id, name)
        changed = replace(
            role,
            verifier=credentials.verifier,
            sealed_password=context.services.vault.seal(credentials.password, purpose)
            if project.store_passwords
            else None,
            is_pending=True,
            updated_at=clock.now(),
        )
        await rows.roles.save(changed)
        operations = await enqueue_change(context, rows, branch, SetPassword(name=name))
    await _invalidate_gateways(context, branch_id)
    return changed, credentials.password, operations


async def reveal_role_password(context: Context, project: Project, branch_id: BranchId, name: str) -> str:
    async with context.services.store.read() as rows:
        branch = await lookup.branch(rows, project, branch_id)
        role = await rows.roles.get(branch.id, name)
    if role is None:
        raise NotFound.resource("role")
    if not project.store_passwords:
        raise PreconditionFailed(
            "This project does not store passwords, so none can be shown. Reset the password to get a new one."
        )
    if not role.can_login:
        raise PreconditionFailed(f"The role {name!r} may not log in, so it has no password.")
    if role.sealed_password is None:
        raise PreconditionFailed(
            f"The password of the role {name!r} was set with SQL, so it is not stored here. Reset it to get a new one."
        )
    return context.services.vault.open(role.sealed_password, password_sealing_purpose(branch_id, name))


async def _invalidate_gateways(context: Context, branch_id: BranchId) -> None:
    async with context.services.store.read() as rows:
        endpoints = await rows.endpoints.list_in_branch(branch_id)
    await context.invalidate_endpoints(*(endpoint.id for endpoint in endpoints))
