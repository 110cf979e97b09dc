"""Named queries on the members of organizations."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import sqlalchemy as sa

from bough.domain.organization import Member, MemberRole
from bough.domain.user import User
from bough.ids import MemberId, OrganizationId, UserId
from bough.store.paging import SortOrder, SortPosition, paginate_sorted, sorted_page_params
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

    def position_of(self, entry: MemberAndUser) -> SortPosition:
        return SortPosition(entry.user.email if self.by == "email" else getattr(entry.member, self.by), entry.member.id)


_WITH_USER = sa.select(
    *(column.label(f"member_{column.name}") for column in members.c),
    *(column.label(f"user_{column.name}") for column in users.c),
).join(users, users.c.id == members.c.user_id)
_ONE = _WITH_USER.where(equals_param(members.c.org_id), equals_param(members.c.id))
_OF_USER = _WITH_USER.where(equals_param(members.c.org_id), equals_param(members.c.user_id))
_ROW = (equals_param(members.c.org_id, "of_org"), equals_param(members.c.id, "of_id"))
_SORTED: dict[SortBy, sa.ColumnElement[Any]] = {
    "email": users.c.email,
    "role": members.c.role,
    "joined_at": members.c.joined_at,
}


@cache
def _page(order: MemberSortOrder, *, is_continuation: bool) -> sa.Select[Any]:
    return paginate_sorted(
        _WITH_USER.where(equals_param(members.c.org_id)),
        _SORTED[order.by],
        members.c.id,
        order,
        is_continuation=is_continuation,
    )


class Members(Queries):
    async def add(self, member: Member) -> None:
        """Raise Duplicate if the user is a member already."""
        await self._insert(members, to_columns(member))

    async def get(self, org_id: OrganizationId, member_id: MemberId) -> MemberAndUser | None:
        row = await self._one(_ONE, org_id=org_id, id=member_id)
        return _to_member_and_user(row) if row else None

    async def get_by_user(self, org_id: OrganizationId, user_id: UserId) -> MemberAndUser | None:
        row = await self._one(_OF_USER, org_id=org_id, user_id=user_id)
        return _to_member_and_user(row) if row else None

    async def page(
        self, org_id: OrganizationId, order: MemberSortOrder, *, limit: int, after: SortPosition | None
    ) -> tuple[list[MemberAndUser], SortPosition | None]:
        """Return one page and, if another page follows, the position at which it ended."""
        statement = _page(order, is_continuation=after is not None)
        entries = [
            _to_member_and_user(row)
            for row in await self._all(statement, org_id=org_id, **sorted_page_params(limit, after))
        ]
        return entries[:limit], order.position_of(entries[limit - 1]) if len(entries) > limit else None

    async def list_member_emails(self, org_id: OrganizationId, emails: Collection[str]) -> list[str]:
        """Return the addresses that belong to members, sorted."""
        is_match = sa.and_(members.c.org_id == org_id, users.c.email.in_(emails))
        rows = await self._all(_WITH_USER.where(is_match).order_by(users.c.email))
        return [row["user_email"] for row in rows]

    async def list_admins(self, org_id: OrganizationId) -> list[User]:
        admins = sa.and_(members.c.org_id == org_id, members.c.role == MemberRole.ADMIN)
        return [
            _to_member_and_user(row).user for row in await self._all(_WITH_USER.where(admins).order_by(users.c.email))
        ]

    async def count_admins(self, org_id: OrganizationId) -> int:
        admins = sa.and_(members.c.org_id == org_id, members.c.role == MemberRole.ADMIN)
        return int(await self._value(sa.select(sa.func.count()).select_from(members).where(admins)))

    async def set_role(self, member: Member, role: MemberRole) -> None:
        await self._run(sa.update(members).where(*_ROW).values(role=role), of_org=member.org_id, of_id=member.id)

    async def remove(self, member: Member) -> None:
        await self._run(sa.delete(members).where(*_ROW), of_org=member.org_id, of_id=member.id)


def _to_member_and_user(row: Any) -> MemberAndUser:
    return MemberAndUser(from_row(Member, row, "member_"), from_row(User, row, "user_"))
