"""Named queries on access to single projects: the project roles of members, and permissions by e-mail address."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from bough.domain.permission import Permission
from bough.domain.rights import ProjectRole
from bough.ids import OrganizationId, PermissionId, ProjectId, UserId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import permissions, project_roles, projects


@dataclass(frozen=True, slots=True)
class ProjectGrant:
    """A user's access to one project, apart from the user's role in its organization."""

    role: ProjectRole | None = None
    is_shared: bool = False


NO_GRANT = ProjectGrant()

_LIVE = permissions.c.revoked_at.is_(None)
_ROLE = sa.select(project_roles.c.role).where(
    equals_param(project_roles.c.user_id), equals_param(project_roles.c.project_id)
)
_SHARED = sa.select(permissions.c.id).where(
    equals_param(permissions.c.email), equals_param(permissions.c.project_id), _LIVE
)
_ONE = sa.select(_ROLE.scalar_subquery().label("role"), _SHARED.exists().label("shared"))
_ROLES = sa.select(project_roles.c.project_id, project_roles.c.role).where(equals_param(project_roles.c.user_id))
_ALL_SHARED = sa.select(permissions.c.project_id).where(equals_param(permissions.c.email), _LIVE)
_PERMISSIONS = (
    sa.select(permissions)
    .where(equals_param(permissions.c.project_id), _LIVE)
    .order_by(permissions.c.granted_at, permissions.c.id)
)


class Grants(Queries):
    async def get(self, user_id: UserId, email: str, project_id: ProjectId) -> ProjectGrant:
        row = await self._one(_ONE, user_id=user_id, email=email, project_id=project_id)
        assert row is not None
        return ProjectGrant(ProjectRole(row["role"]) if row["role"] else None, bool(row["shared"]))

    async def get_by_project(self, user_id: UserId, email: str) -> dict[ProjectId, ProjectGrant]:
        """Return the grants on all projects that the user has access to."""
        roles = {row["project_id"]: ProjectRole(row["role"]) for row in await self._all(_ROLES, user_id=user_id)}
        shared = {row["project_id"] for row in await self._all(_ALL_SHARED, email=email)}
        return {ProjectId(each): ProjectGrant(roles.get(each), each in shared) for each in roles.keys() | shared}

    async def get_roles(self, project_id: ProjectId) -> dict[UserId, ProjectRole]:
        rows = await self._all(sa.select(project_roles).where(project_roles.c.project_id == project_id))
        return {UserId(row["user_id"]): ProjectRole(row["role"]) for row in rows}

    async def set_role(self, project_id: ProjectId, user_id: UserId, role: ProjectRole | None) -> None:
        """With None, the user's role in the organization applies again."""
        one = sa.and_(project_roles.c.project_id == project_id, project_roles.c.user_id == user_id)
        await self._run(sa.delete(project_roles).where(one))
        if role is not None:
            await self._insert(project_roles, {"project_id": project_id, "user_id": user_id, "role": role})

    async def delete_roles_in_organization(self, org_id: OrganizationId, user_id: UserId) -> None:
        """Called when the user leaves the organization."""
        ours = project_roles.c.project_id.in_(sa.select(projects.c.id).where(projects.c.org_id == org_id))
        await self._run(sa.delete(project_roles).where(project_roles.c.user_id == user_id, ours))

    async def revoke_all(self, project_ids: Collection[ProjectId], now: datetime) -> None:
        """Called when the projects move to another organization, whose admins decide anew."""
        await self._run(sa.delete(project_roles).where(project_roles.c.project_id.in_(project_ids)))
        shared = sa.and_(permissions.c.project_id.in_(project_ids), _LIVE)
        await self._run(sa.update(permissions).where(shared).values(revoked_at=now))

    async def add_permission(self, permission: Permission) -> None:
        """Raise Duplicate if the address has a permission."""
        await self._insert(permissions, to_columns(permission))

    async def list_permissions(self, project_id: ProjectId) -> list[Permission]:
        return [from_row(Permission, row) for row in await self._all(_PERMISSIONS, project_id=project_id)]

    async def get_permission(self, project_id: ProjectId, permission_id: PermissionId) -> Permission | None:
        one = sa.and_(permissions.c.project_id == project_id, permissions.c.id == permission_id)
        row = await self._one(sa.select(permissions).where(one, _LIVE))
        return from_row(Permission, row) if row else None

    async def get_permission_by_email(self, project_id: ProjectId, email: str) -> Permission | None:
        one = sa.and_(permissions.c.project_id == project_id, permissions.c.email == email)
        row = await self._one(sa.select(permissions).where(one, _LIVE))
        return from_row(Permission, row) if row else None

    async def revoke_permission(self, permission_id: PermissionId, now: datetime) -> None:
        await self._run(sa.update(permissions).where(permissions.c.id == permission_id).values(revoked_at=now))
