"""Invitations into an organization: list and make. Taking one back and accepting it are in `api/ours`."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from bough import clock
from bough.api.given import DeskGiven, ManagedOrganization, OnceRoute, PartsGiven, PeopledOrganization
from bough.api.shapes import Body, View, show
from bough.control.invitations import Invitations, Invitee
from bough.domain.invitation import Invitation
from bough.domain.organization import MemberRole

router = APIRouter(tags=["Organizations"], route_class=OnceRoute)

PLACE = "/organizations/{org_id}/invitations"
MOST = 100  # in one call


class NewInvitation(Body):
    email: Annotated[str, Field(min_length=1, max_length=256)]
    role: MemberRole


class InvitationsCreate(Body):
    invitations: Annotated[list[NewInvitation], Field(min_length=1, max_length=MOST)]


class InvitationView(View):
    id: str
    email: str
    org_id: str
    invited_by: str
    invited_at: datetime
    role: MemberRole

    @classmethod
    def of(cls, invitation: Invitation) -> "InvitationView":
        return cls(
            id=invitation.id,
            email=invitation.email,
            org_id=invitation.org_id,
            invited_by=invitation.invited_by,
            invited_at=invitation.invited_at,
            role=invitation.role,
        )


class InvitationsResponse(View):
    invitations: list[InvitationView]


@router.get(PLACE, response_model=InvitationsResponse)
async def get_organization_invitations(organization: PeopledOrganization, given: PartsGiven) -> Response:
    """The invitations that can still be accepted, the oldest first."""
    async with given.store.read() as rows:
        return _shown(await rows.invitations.of(organization.id, clock.now()))


@router.post(PLACE, response_model=InvitationsResponse)
async def create_organization_invitations(
    organization: ManagedOrganization, body: InvitationsCreate, desk: DeskGiven
) -> Response:
    """Invite people by mail, all of them or none. An invitation to the same address takes the place of the earlier."""
    asked = [Invitee(each.email, each.role) for each in body.invitations]
    return _shown(await Invitations(desk).create(organization, asked))


def _shown(found: list[Invitation]) -> Response:
    return show(InvitationsResponse(invitations=[InvitationView.of(each) for each in found]))
