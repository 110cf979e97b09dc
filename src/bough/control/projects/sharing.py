"""Permissions: a project is shared with an e-mail address, and whoever has the address is told by mail.

What is answered says nothing about whether somebody has an account with it.
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


class Sharing:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def grant(self, held: Project, email: str) -> Permission:
        """The permission that the address has already, or a new one."""
        address = email_address.parse_email_address(email)
        async with self._context.transaction() as rows:
            project, _ = await locked_lookup.project(rows, self._context.principal, held.id, right=Right.SHARE)
            self._context.audit.add_details(thing=address)
            known = await rows.grants.get_permission_by_email(project.id, address)
            return known or await self._grant(rows, project, address)

    async def revoke(self, held: Project, permission_id: PermissionId) -> Permission:
        async with self._context.transaction() as rows:
            project, _ = await locked_lookup.project(rows, self._context.principal, held.id, right=Right.SHARE)
            found = await rows.grants.get_permission(project.id, permission_id)
            if found is None:
                raise NotFound.resource("permission")
            self._context.audit.add_details(thing=found.email)
            now = clock.now()
            await rows.grants.revoke_permission(found.id, now)
        return replace(found, revoked_at=now)

    async def _grant(self, rows: Rows, project: Project, address: str) -> Permission:
        permission = Permission(
            id=PermissionId.new(),
            project_id=project.id,
            email=address,
            granted_by=self._context.principal.user_id,
            granted_at=clock.now(),
        )
        await rows.grants.add_permission(permission)
        name = mail.to_single_line(project.name)
        text = (
            f"{self._sharer_name()} shared the project {name} ({project.id}) with you. You may read and change it, "
            f"and see its passwords.\n\nIt is in your list once you have signed in with the address {address}:\n\n"
            f"{mail.page_url(self._context.settings, '/account')}\n\n"
            "If you do not know what this is about, you need not do anything.\n"
        )
        await mail.enqueue_mail(rows, self._context.vault, address, f"The project {name} is shared with you", text)
        return permission

    def _sharer_name(self) -> str:
        principal = self._context.principal
        return principal.name if principal.is_person else "Somebody with a key of its organization"
