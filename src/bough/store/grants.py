"""Named queries on what people have on single projects: roles of members, and permissions by e-mail."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from bough.domain.permission import Permission
from bough.domain.rights import ProjectRole
from bough.ids import OrganizationId, PermissionId, ProjectId, UserId
from bough.store.queries import Queries, same
from bough.store.rebuild import columns_of, rebuild
from bough.store.tables import permissions, project_roles, projects


@dataclass(frozen=True, slots=True)
class Granted:
    """What a person has on one project, apart from their role in its organization."""

    role: ProjectRole | None = None
    shared: bool = False


NOTHING = Granted()

_LIVE = permissions.c.revoked_at.is_(None)
_ROLE = sa.select(project_roles.c.role).where(same(project_roles.c.user_id), same(project_roles.c.project_id))
_SHARED = sa.select(permissions.c.id).where(same(permissions.c.email), same(permissions.c.project_id), _LIVE)
_ONE = sa.select(_ROLE.scalar_subquery().label("role"), _SHARED.exists().label("shared"))
_ROLES = sa.select(project_roles.c.project_id, project_roles.c.role).where(same(project_roles.c.user_id))
_ALL_SHARED = sa.select(permissions.c.project_id).where(same(permissions.c.email), _LIVE)
_PERMISSIONS = (
    sa.select(permissions)
    .where(same(permissions.c.project_id), _LIVE)
    .order_by(permissions.c.granted_at, permissions.c.id)
)


class Grants(Queries):
    async def of(self, user_id: UserId, email: str, project_id: ProjectId) -> Granted:
        row = await self._one(_ONE, user_id=user_id, email=email, project_id=project_id)
        assert row is not None
        return Granted(ProjectRole(row["role"]) if row["role"] else None, bool(row["shared"]))

    async def of_person(self, user_id: UserId, email: str) -> dict[ProjectId, Granted]:
        """On every project where they have something."""
        roles = {row["project_id"]: ProjectRole(row["role"]) for row in await self._all(_ROLES, user_id=user_id)}
        shared = {row["project_id"] for row in await self._all(_ALL_SHARED, email=email)}
        return {ProjectId(each): Granted(roles.get(each), each in shared) for each in roles.keys() | shared}

    async def roles_on(self, project_id: ProjectId) -> dict[UserId, ProjectRole]:
        rows = await self._all(sa.select(project_roles).where(project_roles.c.project_id == project_id))
        return {UserId(row["user_id"]): ProjectRole(row["role"]) for row in rows}

    async def set_role(self, project_id: ProjectId, user_id: UserId, role: ProjectRole | None) -> None:
        """None: what their role in the organization gives."""
        one = sa.and_(project_roles.c.project_id == project_id, project_roles.c.user_id == user_id)
        await self._run(sa.delete(project_roles).where(one))
        if role is not None:
            await self._insert(project_roles, {"project_id": project_id, "user_id": user_id, "role": role})

    async def drop_roles_in(self, org_id: OrganizationId, user_id: UserId) -> None:
        """They leave the organization."""
        ours = project_roles.c.project_id.in_(sa.select(projects.c.id).where(projects.c.org_id == org_id))
        await self._run(sa.delete(project_roles).where(project_roles.c.user_id == user_id, ours))

    async def drop_all_on(self, project_ids: Collection[ProjectId], now: datetime) -> None:
        """The projects leave their organization: its new admins decide anew."""
        await self._run(sa.delete(project_roles).where(project_roles.c.project_id.in_(project_ids)))
        shared = sa.and_(permissions.c.project_id.in_(project_ids), _LIVE)
        await self._run(sa.update(permissions).where(shared).values(revoked_at=now))

    async def add_permission(self, permission: Permission) -> None:
        """Raises Duplicate when the address has one."""
        await self._insert(permissions, columns_of(permission))

    async def permissions_on(self, project_id: ProjectId) -> list[Permission]:
        return [rebuild(Permission, row) for row in await self._all(_PERMISSIONS, project_id=project_id)]

    async def permission(self, project_id: ProjectId, permission_id: PermissionId) -> Permission | None:
        one = sa.and_(permissions.c.project_id == project_id, permissions.c.id == permission_id)
        row = await self._one(sa.select(permissions).where(one, _LIVE))
        return rebuild(Permission, row) if row else None

    async def permission_for(self, project_id: ProjectId, email: str) -> Permission | None:
        """What the address has."""
        one = sa.and_(permissions.c.project_id == project_id, permissions.c.email == email)
        row = await self._one(sa.select(permissions).where(one, _LIVE))
        return rebuild(Permission, row) if row else None

    async def revoke(self, permission_id: PermissionId, now: datetime) -> None:
        await self._run(sa.update(permissions).where(permissions.c.id == permission_id).values(revoked_at=now))
