"""Permissions: a project is shared with an e-mail address, and whoever has the address is told by mail.

What is answered says nothing about whether somebody has an account with it.
"""

from dataclasses import replace

from bough import clock
from bough.access import fresh
from bough.control import mail
from bough.control.desk import Desk
from bough.domain import email_address
from bough.domain.permission import Permission
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.errors import NotFound
from bough.ids import PermissionId
from bough.store.store import Rows


class Sharing:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def grant(self, held: Project, email: str) -> Permission:
        """The permission that the address has already, or a new one."""
        address = email_address.parse(email)
        async with self._desk.transaction() as rows:
            project, _ = await fresh.project(rows, self._desk.principal, held.id, to=Right.SHARE)
            self._desk.record.about(thing=address)
            known = await rows.grants.permission_for(project.id, address)
            return known or await self._granted(rows, project, address)

    async def revoke(self, held: Project, permission_id: PermissionId) -> Permission:
        async with self._desk.transaction() as rows:
            project, _ = await fresh.project(rows, self._desk.principal, held.id, to=Right.SHARE)
            found = await rows.grants.permission(project.id, permission_id)
            if found is None:
                raise NotFound.thing("permission")
            self._desk.record.about(thing=found.email)
            now = clock.now()
            await rows.grants.revoke(found.id, now)
        return replace(found, revoked_at=now)

    async def _granted(self, rows: Rows, project: Project, address: str) -> Permission:
        permission = Permission(
            id=PermissionId.new(),
            project_id=project.id,
            email=address,
            granted_by=self._desk.principal.user_id,
            granted_at=clock.now(),
        )
        await rows.grants.add_permission(permission)
        name = mail.one_line(project.name)
        text = (
            f"{self._sharer()} shared the project {name} ({project.id}) with you. You may read and change it, "
            f"and see its passwords.\n\nIt is in your list once you have signed in with the address {address}:\n\n"
            f"{mail.link(self._desk.settings, '/account')}\n\n"
            "If you do not know what this is about, you need not do anything.\n"
        )
        await mail.put(rows, self._desk.vault, address, f"The project {name} is shared with you", text)
        return permission

    def _sharer(self) -> str:
        principal = self._desk.principal
        return principal.name if principal.is_person else "Somebody with a key of its organization"
