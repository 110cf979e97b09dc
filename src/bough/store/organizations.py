"""Named queries on organizations and their members."""

from collections.abc import Collection

import sqlalchemy as sa

from bough.domain.organization import Member, Organization
from bough.ids import OrganizationId, UserId
from bough.store.queries import Queries
from bough.store.rebuild import columns_of, rebuild
from bough.store.tables import members, organizations

_ONE = sa.select(organizations).where(organizations.c.id == sa.bindparam("id"))
_NAMED = sa.select(organizations).where(organizations.c.id.in_(sa.bindparam("ids", expanding=True)))


class Organizations(Queries):
    async def add(self, organization: Organization) -> None:
        await self._insert(organizations, columns_of(organization))

    async def add_member(self, member: Member) -> None:
        await self._insert(members, columns_of(member))

    async def get(self, org_id: OrganizationId) -> Organization | None:
        row = await self._one(_ONE, id=org_id)
        return rebuild(Organization, row) if row else None

    async def personal(self, user_id: UserId) -> Organization:
        row = await self._one(sa.select(organizations).where(organizations.c.personal_for == user_id))
        if row is None:
            raise LookupError(f"user {user_id} has no personal organization")
        return rebuild(Organization, row)

    async def of_user(self, user_id: UserId) -> list[Organization]:
        rows = await self._all(
            sa.select(organizations)
            .join(members, members.c.org_id == organizations.c.id)
            .where(members.c.user_id == user_id)
            .order_by(organizations.c.created_at, organizations.c.id)
        )
        return [rebuild(Organization, row) for row in rows]

    async def named(self, org_ids: Collection[OrganizationId]) -> list[Organization]:
        rows = await self._all(_NAMED, ids=list(org_ids))
        return [rebuild(Organization, row) for row in rows]
