"""What the account page shows: organizations, invitations, projects, keys and browsers of one person."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bough import clock
from bough.control.accounts import SignedIn
from bough.control.desk import Desk
from bough.control.key_use import KeyUse
from bough.control.parts import Parts
from bough.domain.api_key import ApiKey
from bough.domain.invitation import Invitation
from bough.domain.session import Session
from bough.pages import account_projects, browsers
from bough.pages.account_projects import Projects
from bough.store.store import Rows

MOST_BROWSERS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownOrganization:
    name: str
    role: str
    is_personal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownInvitation:
    id: str
    organization: str
    role: str
    inviter: str
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownKey:
    id: int
    name: str
    made: datetime
    used: datetime | None
    used_from: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBrowser:
    name: str
    address: str
    since: datetime
    is_this: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    organizations: Sequence[ShownOrganization]
    invitations: Sequence[ShownInvitation]
    projects: Projects
    keys: Sequence[ShownKey]
    browsers: Sequence[ShownBrowser]
    more_browsers: int


async def read(parts: Parts, desk: Desk, signed: SignedIn) -> Contents:
    now = clock.now()
    async with parts.store.read() as rows:
        invitations = await _invitations(rows, await rows.invitations.addressed_to(signed.user.email, now))
        keys = await rows.api_keys.personal(signed.user.id)
        sessions = await rows.sessions.of(signed.user.id, now)
    return Contents(
        organizations=_organizations(signed),
        invitations=invitations,
        projects=await account_projects.read(desk),
        keys=[_key(key, parts.key_use) for key in keys],
        browsers=[_browser(each, signed.session) for each in sessions[:MOST_BROWSERS]],
        more_browsers=max(0, len(sessions) - MOST_BROWSERS),
    )


def _organizations(signed: SignedIn) -> list[ShownOrganization]:
    return [
        ShownOrganization(
            name=each.organization.name,
            role=each.role or "",
            is_personal=each.organization.personal_for == signed.user.id,
        )
        for each in signed.principal.memberships.values()
    ]


async def _invitations(rows: Rows, found: Sequence[Invitation]) -> list[ShownInvitation]:
    organizations = await rows.organizations.named({each.org_id for each in found})
    people = await rows.users.named({each.invited_by for each in found})
    return [
        ShownInvitation(
            id=each.id,
            organization=organizations[each.org_id].name,
            role=each.role,
            inviter=people[each.invited_by].email if each.invited_by in people else "",
            until=each.expires_at,
        )
        for each in found
        if each.org_id in organizations
    ]


def _key(key: ApiKey, use: KeyUse) -> ShownKey:
    at, address = use.last(key.id) or (key.last_used_at, key.last_used_from)
    return ShownKey(id=key.id, name=key.name, made=key.created_at, used=at, used_from=address)


def _browser(session: Session, here: Session) -> ShownBrowser:
    return ShownBrowser(
        name=browsers.name_of(session.agent),
        address=session.address,
        since=session.created_at,
        is_this=session.digest == here.digest,
    )
