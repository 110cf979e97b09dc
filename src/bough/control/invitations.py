"""Invitations into an organization: made and mailed together, taken back, accepted once.

Whoever is invited learns of it by mail; nobody else learns whether the address has an account.
"""

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bough import clock
from bough.access import fresh
from bough.access.keys import Keys
from bough.control import mail
from bough.control.desk import Desk
from bough.domain import email_address
from bough.domain.invitation import Invitation
from bough.domain.organization import Member, MemberRole, Organization, check_takes_members
from bough.domain.rights import OrgRight
from bough.errors import Invalid, NotFound, Taken
from bough.ids import InvitationId, MemberId, UserId
from bough.store.store import Rows


@dataclass(frozen=True, slots=True)
class Invitee:
    email: str
    role: MemberRole


class Invitations:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, held: Organization, asked: Sequence[Invitee]) -> list[Invitation]:
        """All of them or none. Whoever was invited before gets a new link, and the old one stops working."""
        roles = _by_address(asked)
        check_takes_members(held)
        async with self._desk.transaction() as rows:
            caller = await fresh.caller(rows, self._desk.principal, held.id)
            organization = caller.organization(held.id, to=OrgRight.MANAGE)
            await _check_none_is_member(rows, organization, roles)
            made = [await self._invite(rows, organization, email, role) for email, role in roles.items()]
            self._desk.record.about(invited=roles)
        return made

    async def revoke(self, held: Organization, invitation_id: InvitationId) -> Invitation:
        async with self._desk.transaction() as rows:
            caller = await fresh.caller(rows, self._desk.principal, held.id)
            caller.organization(held.id, to=OrgRight.MANAGE)
            found = await rows.invitations.get(invitation_id, clock.now())
            if found is None or found.org_id != held.id:
                raise NotFound.thing("invitation")
            await rows.invitations.remove(found.id)
            self._desk.record.about(thing=found.email, role=found.role)
        return found

    async def accept(self, invitation_id: InvitationId) -> Member:
        """By the person whose address it is for."""
        caller = self._desk.principal
        caller.check_acts_in_person()
        member: Member | None = None
        async with self._desk.transaction() as rows:
            now = clock.now()
            found = await rows.invitations.get(invitation_id, now)
            if found is None or found.email != caller.name:
                raise NotFound.thing("invitation")
            await fresh.caller(rows, caller, found.org_id)
            self._desk.record.about(org_id=found.org_id, thing=found.email, role=found.role)
            if await rows.members.of_user(found.org_id, caller.user_id) is None:
                member = await join(rows, found, caller.user_id, now)
            else:
                await _use(rows, found)
        if member is None:
            raise Taken("You are a member of this organization already, so the invitation is used up.")
        return member

    async def _invite(self, rows: Rows, organization: Organization, email: str, role: MemberRole) -> Invitation:
        token, now = secrets.token_urlsafe(32), clock.now()
        made = Invitation(
            id=InvitationId.new(),
            org_id=organization.id,
            email=email,
            role=role,
            digest=self._desk.keys.digest(token),
            invited_by=self._desk.principal.user_id,
            invited_at=now,
            expires_at=now + timedelta(days=self._desk.settings.invitation_days),
        )
        await rows.invitations.put(made)
        link = mail.link(self._desk.settings, f"/invitation?token={token}")
        subject, text = _letter(made, organization, self._desk.principal.name, link)
        await mail.put(rows, self._desk.vault, email, subject, text)
        return made


async def by_token(rows: Rows, keys: Keys, token: str) -> Invitation | None:
    """The invitation whose link was followed, while it can be accepted."""
    return await rows.invitations.by_link(keys.digest(token), clock.now())


async def join(rows: Rows, invitation: Invitation, user_id: UserId, now: datetime) -> Member:
    """Inside a transaction: the invitation is used up, and somebody who was no member is one."""
    await rows.organizations.lock(invitation.org_id)
    await _use(rows, invitation)
    org_id, role = invitation.org_id, invitation.role
    member = Member(id=MemberId.new(), org_id=org_id, user_id=user_id, role=role, joined_at=now)
    await rows.members.add(member)
    return member


async def _use(rows: Rows, invitation: Invitation) -> None:
    if not await rows.invitations.remove(invitation.id):
        raise NotFound.thing("invitation")


def _by_address(asked: Sequence[Invitee]) -> dict[str, MemberRole]:
    roles: dict[str, MemberRole] = {}
    for each in asked:
        email = email_address.parse(each.email)
        if email in roles:
            raise Invalid(f"{email} is invited twice in one call. Leave one of the two out.")
        roles[email] = each.role
    return roles


async def _check_none_is_member(rows: Rows, organization: Organization, emails: Collection[str]) -> None:
    for email in await rows.members.among(organization.id, emails):
        raise Taken(
            f"{email} is a member of the organization already, so nobody was invited. Leave the address out, "
            "or change the member's role instead."
        )


def _letter(invitation: Invitation, organization: Organization, inviter: str, link: str) -> tuple[str, str]:
    name = mail.one_line(organization.name)
    text = (
        f"{inviter} invites you to the organization {name}, as {invitation.role}.\n\n"
        f"To accept, follow this link:\n\n{link}\n\n"
        f"It works once, until {invitation.expires_at:%Y-%m-%d %H:%M} UTC. "
        "If you do not want to join, you need not do anything.\n"
    )
    return f"Invitation to the organization {name}", text
