"""Invitations to an organization: list and create. Revoking and accepting them is in `api/extensions`."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from bough import clock
from bough.api.dependencies import (
    ContextDep,
    IdempotentRoute,
    ManageableOrganization,
    MembersReadableOrganization,
    ServicesDep,
)
from bough.api.schemas import Body, View, to_response
from bough.control.people.invitations import Invitee, create_invitations
from bough.domain.invitation import Invitation
from bough.domain.organization import MemberRole

router = APIRouter(tags=["Organizations"], route_class=IdempotentRoute)

COLLECTION_PATH = "/organizations/{org_id}/invitations"
MAX_INVITATIONS = 100  # per request


class NewInvitation(Body):
    email: Annotated[str, Field(min_length=1, max_length=256)]
    role: MemberRole


class InvitationsCreate(Body):
    invitations: Annotated[list[NewInvitation], Field(min_length=1, max_length=MAX_INVITATIONS)]


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


@router.get(COLLECTION_PATH, response_model=InvitationsResponse)
async def get_organization_invitations(organization: MembersReadableOrganization, services: ServicesDep) -> Response:
    """List the invitations that can still be accepted, oldest first."""
    async with services.store.read() as rows:
        return _build_response(await rows.invitations.list_in_organization(organization.id, clock.now()))


@router.post(COLLECTION_PATH, response_model=InvitationsResponse)
async def create_organization_invitations(
    organization: ManageableOrganization, body: InvitationsCreate, context: ContextDep
) -> Response:
    """Invite people by e-mail, all of them or none. An invitation replaces an earlier one to the same address."""
    invitees = [Invitee(each.email, each.role) for each in body.invitations]
    return _build_response(await create_invitations(context, organization, invitees))


def _build_response(invitations: list[Invitation]) -> Response:
    return to_response(InvitationsResponse(invitations=[InvitationView.of(each) for each in invitations]))
