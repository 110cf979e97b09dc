"""Invitations: list one's own, accept, revoke."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Response

from bough import clock
from bough.api.dependencies import ContextDep, IdempotentRoute, ManageableOrganization, PrincipalDep, ServicesDep
from bough.api.schemas import View, to_response
from bough.api.v2.invitations import InvitationView
from bough.api.v2.members import MemberView
from bough.control.people import invitations as control_invitations
from bough.domain.invitation import Invitation
from bough.domain.organization import Organization
from bough.ids import InvitationId

router = APIRouter(tags=["Bough"], route_class=IdempotentRoute)

InvitationIdPath = Annotated[UUID, Path(alias="invitation_id")]


class OwnInvitation(InvitationView):
    """An invitation to the caller."""

    org_name: str
    expires_at: datetime

    @classmethod
    def for_caller(cls, invitation: Invitation, organization: Organization) -> "OwnInvitation":
        fields = InvitationView.of(invitation).model_dump()
        return cls(**fields, org_name=organization.name, expires_at=invitation.expires_at)


class OwnInvitations(View):
    invitations: list[OwnInvitation]


@router.get("/bough/invitations", response_model=OwnInvitations)
async def list_invitations(caller: PrincipalDep, services: ServicesDep) -> Response:
    """List the invitations to the caller's e-mail address, oldest first."""
    caller.require_personal_key()
    async with services.store.read() as rows:
        invitations = await rows.invitations.list_by_email(caller.name, clock.now())
        organizations = await rows.organizations.get_many({each.org_id for each in invitations})
    return to_response(
        OwnInvitations(invitations=[OwnInvitation.for_caller(each, organizations[each.org_id]) for each in invitations])
    )


@router.post("/bough/invitations/{invitation_id}/accept", response_model=MemberView)
async def accept_invitation(invitation_id: InvitationIdPath, context: ContextDep) -> Response:
    """Accept an invitation and become a member of the organization. An invitation works once."""
    return to_response(MemberView.of(await control_invitations.accept_invitation(context, InvitationId(invitation_id))))


@router.delete("/bough/organizations/{org_id}/invitations/{invitation_id}", response_model=InvitationView)
async def revoke_organization_invitation(
    organization: ManageableOrganization, invitation_id: InvitationIdPath, context: ContextDep
) -> Response:
    """Revoke an invitation. Its link stops working immediately."""
    return to_response(
        InvitationView.of(
            await control_invitations.revoke_invitation(context, organization, InvitationId(invitation_id))
        )
    )
