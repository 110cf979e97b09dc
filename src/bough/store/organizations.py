"""Named queries on organizations."""

from collections.abc import Collection

import sqlalchemy as sa

from bough.domain.organization import MemberRole, Organization
from bough.ids import OrganizationId, ProjectId, UserId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import members, organizations, projects

_ONE = sa.select(organizations).where(equals_param(organizations.c.id))
_LOCK = sa.select(organizations.c.id).where(equals_param(organizations.c.id)).with_for_update()
_OF_USER = (
    sa.select(organizations)
    .join(members, members.c.org_id == organizations.c.id)
    .where(equals_param(members.c.user_id))
    .order_by(organizations.c.created_at, organizations.c.id)
)
_MEMBERSHIPS = _OF_USER.add_columns(members.c.role.label("member_role"))
_CREATED_BY = sa.select(organizations).where(equals_param(organizations.c.created_by)).order_by(organizations.c.id)
_PERSONAL = sa.select(organizations).where(equals_param(organizations.c.personal_for))


_PLAN_OF_PROJECT = (
    sa.select(organizations.c.plan)
    .join(projects, projects.c.org_id == organizations.c.id)
    .where(equals_param(projects.c.id, "project_id"))
)


class Organizations(Queries):
    async def add(self, organization: Organization) -> None:
        await self._insert(organizations, to_columns(organization))

    async def save(self, organization: Organization) -> None:
        await self._save(organizations, to_columns(organization))

    async def get(self, org_id: OrganizationId) -> Organization | None:
        row = await self._one(_ONE, id=org_id)
        return from_row(Organization, row) if row else None

    async def get_plan_of_project(self, project_id: ProjectId) -> str | None:
        """Return the name of the project's plan."""
        plan: str | None = await self._value(_PLAN_OF_PROJECT, project_id=project_id)
        return plan

    async def lock(self, org_id: OrganizationId) -> None:
        """Serialize decisions about the organization's members and project limit. SQLite has only one writer."""
        await self._value(_LOCK, id=org_id)

    async def get_many(self, org_ids: Collection[OrganizationId]) -> dict[OrganizationId, Organization]:
        rows = await self._all(sa.select(organizations).where(organizations.c.id.in_(org_ids)))
        return {OrganizationId(row["id"]): from_row(Organization, row) for row in rows}

    async def list_by_user(self, user_id: UserId) -> list[Organization]:
        """Return the user's organizations, the oldest (the personal one) first."""
        return [from_row(Organization, row) for row in await self._all(_OF_USER, user_id=user_id)]

    async def list_memberships(self, user_id: UserId) -> list[tuple[Organization, MemberRole]]:
        """Return the user's organizations with the user's role in each."""
        rows = await self._all(_MEMBERSHIPS, user_id=user_id)
        return [(from_row(Organization, row), MemberRole(row["member_role"])) for row in rows]

    async def list_created_by(self, user_id: UserId) -> list[Organization]:
        """Include the personal organization and organizations that the user has left."""
        return [from_row(Organization, row) for row in await self._all(_CREATED_BY, created_by=user_id)]

    async def get_personal(self, user_id: UserId) -> Organization | None:
        row = await self._one(_PERSONAL, personal_for=user_id)
        return from_row(Organization, row) if row else None
