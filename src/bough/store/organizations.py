"""Named queries on organizations and their members."""

import sqlalchemy as sa

from bough.domain.organization import Member, Organization
from bough.ids import UserId
from bough.store.queries import Queries
from bough.store.rebuild import columns_of, rebuild
from bough.store.tables import members, organizations


class Organizations(Queries):
    async def add(self, organization: Organization) -> None:
        await self._insert(organizations, columns_of(organization))

    async def add_member(self, member: Member) -> None:
        await self._insert(members, columns_of(member))

    async def of_user(self, user_id: UserId) -> list[Organization]:
        rows = await self._all(
            sa.select(organizations)
            .join(members, members.c.org_id == organizations.c.id)
            .where(members.c.user_id == user_id)
            .order_by(organizations.c.created_at, organizations.c.id)
        )
        return [rebuild(Organization, row) for row in rows]
