"""Named queries on the members of organizations."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import sqlalchemy as sa

from bough.domain.organization import Member, MemberRole
from bough.domain.user import User
from bough.ids import MemberId, OrganizationId, UserId
from bough.store.order import Order, OrderedPlace, in_order, placed_in
from bough.store.queries import Queries, same
from bough.store.rebuild import columns_of, rebuild
from bough.store.tables import members, users

SortBy = Literal["email", "role", "joined_at"]


@dataclass(frozen=True, slots=True)
class SeenMember:
    member: Member
    user: User


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOrder(Order):
    by: SortBy

    def place(self, seen: SeenMember) -> OrderedPlace:
        return OrderedPlace(seen.user.email if self.by == "email" else getattr(seen.member, self.by), seen.member.id)


_SEEN = sa.select(
    *(column.label(f"member_{column.name}") for column in members.c),
    *(column.label(f"user_{column.name}") for column in users.c),
).join(users, users.c.id == members.c.user_id)
_ONE = _SEEN.where(same(members.c.org_id), same(members.c.id))
_OF_USER = _SEEN.where(same(members.c.org_id), same(members.c.user_id))
_ROW = (same(members.c.org_id, "of_org"), same(members.c.id, "of_id"))
_SORTED: dict[SortBy, sa.ColumnElement[Any]] = {
    "email": users.c.email,
    "role": members.c.role,
    "joined_at": members.c.joined_at,
}


@cache
def _page(order: MemberOrder, *, later: bool) -> sa.Select[Any]:
    return in_order(_SEEN.where(same(members.c.org_id)), _SORTED[order.by], members.c.id, order, later=later)


class Members(Queries):
    async def add(self, member: Member) -> None:
        """Raises Duplicate when they are a member already."""
        await self._insert(members, columns_of(member))

    async def get(self, org_id: OrganizationId, member_id: MemberId) -> SeenMember | None:
        row = await self._one(_ONE, org_id=org_id, id=member_id)
        return _seen(row) if row else None

    async def of_user(self, org_id: OrganizationId, user_id: UserId) -> SeenMember | None:
        row = await self._one(_OF_USER, org_id=org_id, user_id=user_id)
        return _seen(row) if row else None

    async def page(
        self, org_id: OrganizationId, order: MemberOrder, *, limit: int, after: OrderedPlace | None
    ) -> tuple[list[SeenMember], OrderedPlace | None]:
        """One page, and where it ended when another follows."""
        statement = _page(order, later=after is not None)
        found = [_seen(row) for row in await self._all(statement, org_id=org_id, **placed_in(limit, after))]
        return found[:limit], order.place(found[limit - 1]) if len(found) > limit else None

    async def among(self, org_id: OrganizationId, emails: Collection[str]) -> list[str]:
        """Those of the addresses that members have, in their order."""
        theirs = sa.and_(members.c.org_id == org_id, users.c.email.in_(emails))
        rows = await self._all(_SEEN.where(theirs).order_by(users.c.email))
        return [row["user_email"] for row in rows]

    async def count_admins(self, org_id: OrganizationId) -> int:
        admins = sa.and_(members.c.org_id == org_id, members.c.role == MemberRole.ADMIN)
        return int(await self._value(sa.select(sa.func.count()).select_from(members).where(admins)))

    async def set_role(self, member: Member, role: MemberRole) -> None:
        await self._run(sa.update(members).where(*_ROW).values(role=role), of_org=member.org_id, of_id=member.id)

    async def remove(self, member: Member) -> None:
        await self._run(sa.delete(members).where(*_ROW), of_org=member.org_id, of_id=member.id)


def _seen(row: Any) -> SeenMember:
    return SeenMember(rebuild(Member, row, "member_"), rebuild(User, row, "user_"))
