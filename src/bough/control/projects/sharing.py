"""Permissions: share a project with an e-mail address and notify its owner by mail.

The response does not reveal whether an account with the address exists.
"""

from dataclasses import replace

from bough import clock
from bough.access import locked_lookup
from bough.control.context import Context
from bough.control.platform import mail
from bough.domain import email_address
from bough.domain.permission import Permission
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.errors import NotFound
from bough.ids import PermissionId
from bough.store.store import Rows


async def grant_permission(context: Context, project: Project, email: str) -> Permission:
    """Return the existing permission of the address, or a new one."""
    address = email_address.parse_email_address(email)
    async with context.transaction() as rows:
        project, _ = await locked_lookup.project(rows, context.principal, project.id, right=Right.SHARE)
        context.audit.add_details(resource=address)
        known = await rows.grants.get_permission_by_email(project.id, address)
        return known or await _add_permission(context, rows, project, address)


async def revoke_permission(context: Context, project: Project, permission_id: PermissionId) -> Permission:
    async with context.transaction() as rows:
        project, _ = await locked_lookup.project(rows, context.principal, project.id, right=Right.SHARE)
        found = await rows.grants.get_permission(project.id, permission_id)
        if found is None:
            raise NotFound.resource("permission")
        context.audit.add_details(resource=found.email)
        now = clock.now()
        await rows.grants.revoke_permission(found.id, now)
    return replace(found, revoked_at=now)


async def _add_permission(context: Context, rows: Rows, project: Project, address: str) -> Permission:
    permission = Permission(
        id=PermissionId.new(),
        project_id=project.id,
        email=address,
        granted_by=context.principal.user_id,
        granted_at=clock.now(),
    )
    await rows.grants.add_permission(permission)
    name = mail.to_single_line(project.name)
    text = (
        f"{_sharer_name(context)} shared the project {name} ({project.id}) with you. You can read and change it, "
        "and see its passwords.\n\n"
        f"It appears in your list of projects after you sign in with the address {address}:\n\n"
        f"{mail.page_url(context.services.settings, '/account')}\n\n"
        "If you did not expect this e-mail, you can ignore it.\n"
    )
    await mail.enqueue_mail(rows, context.services.vault, address, f"The project {name} is shared with you", text)
    return permission


def _sharer_name(context: Context) -> str:
    principal = context.principal
    return principal.name if principal.is_person else "An API key of its organization"
