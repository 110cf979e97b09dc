"""Invitations to an organization: create and mail them together, revoke, accept once.

Only the owner of the address, who gets the mail, learns whether it has an account.
"""

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bough import clock
from bough.access import locked_lookup
from bough.access.keys import Keys
from bough.control.context import Context
from bough.control.platform import mail
from bough.domain import email_address
from bough.domain.invitation import Invitation
from bough.domain.organization import Member, MemberRole, Organization, check_accepts_members
from bough.domain.rights import OrgRight
from bough.errors import Conflict, Invalid, NotFound
from bough.ids import InvitationId, MemberId, UserId
from bough.store.store import Rows


@dataclass(frozen=True, slots=True)
class Invitee:
    email: str
    role: MemberRole


async def create_invitations(
    context: Context, organization: Organization, invitees: Sequence[Invitee]
) -> list[Invitation]:
    """Create all of the invitations or none. A repeated invitation replaces the earlier link."""
    roles = _by_address(invitees)
    check_accepts_members(organization)
    async with context.transaction() as rows:
        caller = await locked_lookup.caller(rows, context.principal, organization.id)
        organization = caller.organization(organization.id, right=OrgRight.MANAGE)
        await _check_none_is_member(rows, organization, roles)
        invitations = [await _invite(context, rows, organization, email, role) for email, role in roles.items()]
        context.audit.add_details(invited=roles)
    return invitations


async def revoke_invitation(context: Context, organization: Organization, invitation_id: InvitationId) -> Invitation:
    async with context.transaction() as rows:
        caller = await locked_lookup.caller(rows, context.principal, organization.id)
        caller.organization(organization.id, right=OrgRight.MANAGE)
        found = await rows.invitations.get(invitation_id, clock.now())
        if found is None or found.org_id != organization.id:
            raise NotFound.resource("invitation")
        await rows.invitations.remove(found.id)
        context.audit.add_details(resource=found.email, role=found.role)
    return found


async def accept_invitation(context: Context, invitation_id: InvitationId) -> Member:
    """Accept the invitation as the user with the invited address."""
    caller = context.principal
    caller.require_personal_key()
    member: Member | None = None
    async with context.transaction() as rows:
        now = clock.now()
        found = await rows.invitations.get(invitation_id, now)
        if found is None or found.email != caller.name:
            raise NotFound.resource("invitation")
        await locked_lookup.caller(rows, caller, found.org_id)
        context.audit.add_details(org_id=found.org_id, resource=found.email, role=found.role)
        if await rows.members.get_by_user(found.org_id, caller.user_id) is None:
            member = await join(rows, found, caller.user_id, now)
        else:
            await _use(rows, found)
    if member is None:
        raise Conflict("You are already a member of this organization. The invitation is used up.")
    return member


async def _invite(context: Context, rows: Rows, organization: Organization, email: str, role: MemberRole) -> Invitation:
    token, now = secrets.token_urlsafe(32), clock.now()
    invitation = Invitation(
        id=InvitationId.new(),
        org_id=organization.id,
        email=email,
        role=role,
        digest=context.services.keys.digest(token),
        invited_by=context.principal.user_id,
        invited_at=now,
        expires_at=now + timedelta(days=context.services.settings.invitation_days),
    )
    await rows.invitations.replace(invitation)
    link = mail.page_url(context.services.settings, f"/invitation?token={token}")
    subject, text = _invitation_mail(invitation, organization, context.principal.name, link)
    await mail.enqueue_mail(rows, context.services.vault, email, subject, text)
    return invitation


async def find_by_token(rows: Rows, keys: Keys, token: str) -> Invitation | None:
    """Return the invitation of a link's token while it can be accepted."""
    return await rows.invitations.get_by_digest(keys.digest(token), clock.now())


async def join(rows: Rows, invitation: Invitation, user_id: UserId, now: datetime) -> Member:
    """Use up the invitation and add the user to the organization, inside the caller's transaction."""
    await rows.organizations.lock(invitation.org_id)
    await _use(rows, invitation)
    org_id, role = invitation.org_id, invitation.role
    member = Member(id=MemberId.new(), org_id=org_id, user_id=user_id, role=role, joined_at=now)
    await rows.members.add(member)
    return member


async def _use(rows: Rows, invitation: Invitation) -> None:
    if not await rows.invitations.remove(invitation.id):
        raise NotFound.resource("invitation")


def _by_address(invitees: Sequence[Invitee]) -> dict[str, MemberRole]:
    roles: dict[str, MemberRole] = {}
    for each in invitees:
        email = email_address.parse_email_address(each.email)
        if email in roles:
            raise Invalid(f"{email} is invited twice in one request. Remove one of the two.")
        roles[email] = each.role
    return roles


async def _check_none_is_member(rows: Rows, organization: Organization, emails: Collection[str]) -> None:
    for email in await rows.members.list_member_emails(organization.id, emails):
        raise Conflict(
            f"{email} is already a member of the organization, so no invitation was sent. Remove the address, "
            "or change the member's role instead."
        )


def _invitation_mail(invitation: Invitation, organization: Organization, inviter: str, link: str) -> tuple[str, str]:
    name = mail.to_single_line(organization.name)
    text = (
        f"{inviter} invites you to the organization {name}, as {invitation.role}.\n\n"
        f"To accept, follow this link:\n\n{link}\n\n"
        f"It works once, until {invitation.expires_at:%Y-%m-%d %H:%M} UTC. "
        "If you do not want to join, you can ignore this e-mail.\n"
    )
    return f"Invitation to the organization {name}", text
