"""Members of an organization: list, get, change a role, remove."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response

from bough.api.given import (
    DeskGiven,
    ManagedOrganization,
    OnceRoute,
    PartsGiven,
    PeopledOrganization,
    PrincipalGiven,
    ReadableOrganization,
)
from bough.api.ordered_cursors import cursor_of, place_of
from bough.api.shapes import Body, Text, View, show
from bough.control import members
from bough.control.members import Members
from bough.domain.organization import Member, MemberRole
from bough.domain.rights import OrgRight
from bough.ids import MemberId
from bough.store.members import MemberOrder, SeenMember, SortBy

router = APIRouter(tags=["Organizations"], route_class=OnceRoute)

PLACE = "/organizations/{org_id}/members"
ONE = f"{PLACE}/{{member_id}}"
MOST = 500
MemberName = Annotated[UUID, Path(alias="member_id")]


class MemberUpdate(Body):
    role: MemberRole


class MemberView(View):
    id: str
    user_id: str
    org_id: str
    role: MemberRole
    joined_at: datetime

    @classmethod
    def of(cls, member: Member) -> "MemberView":
        return cls(
            id=member.id,
            user_id=member.user_id,
            org_id=member.org_id,
            role=member.role,
            joined_at=member.joined_at,
        )


class MemberUser(View):
    email: str


class MemberWithUser(View):
    member: MemberView
    user: MemberUser

    @classmethod
    def of(cls, seen: SeenMember) -> "MemberWithUser":
        return cls(member=MemberView.of(seen.member), user=MemberUser(email=seen.user.email))


class MemberPagination(View):
    next: str | None
    sort_by: str
    sort_order: str


class MembersResponse(View):
    members: list[MemberWithUser]
    pagination: MemberPagination


class MemberRemoved(View):
    """An empty object: clients of this API expect one here."""


@router.get(PLACE, response_model=MembersResponse)
async def get_organization_members(
    organization: PeopledOrganization,
    given: PartsGiven,
    sort_by: Annotated[SortBy, Query()] = "joined_at",
    cursor: Annotated[Text | None, Query()] = None,
    sort_order: Annotated[Literal["asc", "desc"], Query()] = "desc",
    limit: Annotated[int, Query(ge=1, le=MOST)] = 100,
) -> Response:
    """The organization's members, with their e-mail addresses."""
    order = MemberOrder(by=sort_by, falls=sort_order == "desc")
    after = place_of(cursor, order)
    async with given.store.read() as rows:
        found, more = await rows.members.page(organization.id, order, limit=limit, after=after)
    ended = MemberPagination(next=cursor_of(more, order) if more else None, sort_by=sort_by, sort_order=sort_order)
    return show(MembersResponse(members=[MemberWithUser.of(seen) for seen in found], pagination=ended))


@router.get(ONE, response_model=MemberView)
async def get_organization_member(
    organization: ReadableOrganization, member_id: MemberName, caller: PrincipalGiven, given: PartsGiven
) -> Response:
    """One member; everybody may get themselves."""
    async with given.store.read() as rows:
        seen = await members.one(rows, caller, organization.id, MemberId(member_id), to=OrgRight.SEE_MEMBERS)
    return show(MemberView.of(seen.member))


@router.patch(ONE, response_model=MemberView)
async def update_organization_member(
    organization: ManagedOrganization, member_id: MemberName, body: MemberUpdate, desk: DeskGiven
) -> Response:
    """Change a member's role. The organization keeps at least one admin."""
    return show(MemberView.of(await Members(desk).set_role(organization, MemberId(member_id), body.role)))


@router.delete(ONE, response_model=MemberRemoved)
async def remove_organization_member(
    organization: ReadableOrganization, member_id: MemberName, desk: DeskGiven
) -> Response:
    """Remove a member, or leave. What they were given on single projects of the organization goes with them."""
    await Members(desk).remove(organization, MemberId(member_id))
    return show(MemberRemoved())
