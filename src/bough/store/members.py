"""Named queries on the members of organizations."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import sqlalchemy as sa

from bough.domain.organization import Member, MemberRole
from bough.domain.user import User
from bough.ids import MemberId, OrganizationId, UserId
from bough.store.order import SortOrder, SortPosition, paginate_sorted, sorted_page_params
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import members, users

SortBy = Literal["email", "role", "joined_at"]


@dataclass(frozen=True, slots=True)
class MemberAndUser:
    member: Member
    user: User


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSortOrder(SortOrder):
    by: SortBy

    def position_of(self, seen: MemberAndUser) -> SortPosition:
        return SortPosition(seen.user.email if self.by == "email" else getattr(seen.member, self.by), seen.member.id)


_SEEN = sa.select(
    *(column.label(f"member_{column.name}") for column in members.c),
    *(column.label(f"user_{column.name}") for column in users.c),
).join(users, users.c.id == members.c.user_id)
_ONE = _SEEN.where(equals_param(members.c.org_id), equals_param(members.c.id))
_OF_USER = _SEEN.where(equals_param(members.c.org_id), equals_param(members.c.user_id))
_ROW = (equals_param(members.c.org_id, "of_org"), equals_param(members.c.id, "of_id"))
_SORTED: dict[SortBy, sa.ColumnElement[Any]] = {
    "email": users.c.email,
    "role": members.c.role,
    "joined_at": members.c.joined_at,
}


@cache
def _page(order: MemberSortOrder, *, later: bool) -> sa.Select[Any]:
    return paginate_sorted(
        _SEEN.where(equals_param(members.c.org_id)), _SORTED[order.by], members.c.id, order, continues=later
    )


class Members(Queries):
    async def add(self, member: Member) -> None:
        """Raises Duplicate when they are a member already."""
        await self._insert(members, to_columns(member))

    async def get(self, org_id: OrganizationId, member_id: MemberId) -> MemberAndUser | None:
        row = await self._one(_ONE, org_id=org_id, id=member_id)
        return _seen(row) if row else None

    async def get_by_user(self, org_id: OrganizationId, user_id: UserId) -> MemberAndUser | None:
        row = await self._one(_OF_USER, org_id=org_id, user_id=user_id)
        return _seen(row) if row else None

    async def page(
        self, org_id: OrganizationId, order: MemberSortOrder, *, limit: int, after: SortPosition | None
    ) -> tuple[list[MemberAndUser], SortPosition | None]:
        """One page, and where it ended when another follows."""
        statement = _page(order, later=after is not None)
        found = [_seen(row) for row in await self._all(statement, org_id=org_id, **sorted_page_params(limit, after))]
        return found[:limit], order.position_of(found[limit - 1]) if len(found) > limit else None

    async def list_member_emails(self, org_id: OrganizationId, emails: Collection[str]) -> list[str]:
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


def _seen(row: Any) -> MemberAndUser:
    return MemberAndUser(from_row(Member, row, "member_"), from_row(User, row, "user_"))
