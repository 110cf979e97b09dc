"""Members of an organization: list, get, change a role, remove."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response

from bough.api.dependencies import (
    ContextDep,
    IdempotentRoute,
    ManageableOrganization,
    MembersReadableOrganization,
    PrincipalDep,
    ReadableOrganization,
    ServicesDep,
)
from bough.api.paging import decode_sort_cursor, encode_sort_cursor
from bough.api.schemas import Body, Text, View, to_response
from bough.control.people import members
from bough.control.people.members import remove_member, set_member_role
from bough.domain.organization import Member, MemberRole
from bough.domain.rights import OrgRight
from bough.ids import MemberId
from bough.store.members import MemberAndUser, MemberSortOrder, SortBy

router = APIRouter(tags=["Organizations"], route_class=IdempotentRoute)

COLLECTION_PATH = "/organizations/{org_id}/members"
ITEM_PATH = f"{COLLECTION_PATH}/{{member_id}}"
MAX_PAGE_SIZE = 500
MemberIdPath = Annotated[UUID, Path(alias="member_id")]


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
    def of(cls, entry: MemberAndUser) -> "MemberWithUser":
        return cls(member=MemberView.of(entry.member), user=MemberUser(email=entry.user.email))


class MemberPagination(View):
    next: str | None
    sort_by: str
    sort_order: str


class MembersResponse(View):
    members: list[MemberWithUser]
    pagination: MemberPagination


class MemberRemoved(View):
    """An empty object, as clients of this API expect."""


@router.get(COLLECTION_PATH, response_model=MembersResponse)
async def get_organization_members(
    organization: MembersReadableOrganization,
    services: ServicesDep,
    sort_by: Annotated[SortBy, Query()] = "joined_at",
    cursor: Annotated[Text | None, Query()] = None,
    sort_order: Annotated[Literal["asc", "desc"], Query()] = "desc",
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = 100,
) -> Response:
    """List the organization's members with their e-mail addresses."""
    order = MemberSortOrder(by=sort_by, is_descending=sort_order == "desc")
    after = decode_sort_cursor(cursor, order)
    async with services.store.read() as rows:
        entries, more = await rows.members.page(organization.id, order, limit=limit, after=after)
    pagination = MemberPagination(
        next=encode_sort_cursor(more, order) if more else None, sort_by=sort_by, sort_order=sort_order
    )
    return to_response(MembersResponse(members=[MemberWithUser.of(entry) for entry in entries], pagination=pagination))


@router.get(ITEM_PATH, response_model=MemberView)
async def get_organization_member(
    organization: ReadableOrganization, member_id: MemberIdPath, caller: PrincipalDep, services: ServicesDep
) -> Response:
    """Get a member. Every member can get itself."""
    async with services.store.read() as rows:
        entry = await members.find_member(
            rows, caller, organization.id, MemberId(member_id), right=OrgRight.SEE_MEMBERS
        )
    return to_response(MemberView.of(entry.member))


@router.patch(ITEM_PATH, response_model=MemberView)
async def update_organization_member(
    organization: ManageableOrganization, member_id: MemberIdPath, body: MemberUpdate, context: ContextDep
) -> Response:
    """Change a member's role. The organization keeps at least one admin."""
    return to_response(MemberView.of(await set_member_role(context, organization, MemberId(member_id), body.role)))


@router.delete(ITEM_PATH, response_model=MemberRemoved)
async def remove_organization_member(
    organization: ReadableOrganization, member_id: MemberIdPath, context: ContextDep
) -> Response:
    """Remove a member, or leave the organization. This also removes the member's roles on single projects."""
    await remove_member(context, organization, MemberId(member_id))
    return to_response(MemberRemoved())
