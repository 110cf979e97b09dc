"""What the account page shows: organizations, invitations, projects, keys and browsers of a user."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bough import clock
from bough.control.context import Context
from bough.control.people.accounts import SignedInUser
from bough.control.platform.key_usage import KeyUsage
from bough.control.services import Services
from bough.domain.api_key import ApiKey
from bough.domain.invitation import Invitation
from bough.domain.session import Session
from bough.pages import account_projects, user_agents
from bough.pages.account_projects import AccountProjects
from bough.store.store import Rows

MAX_BROWSERS = 20


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
    created: datetime
    last_used: datetime | None
    last_used_from: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBrowser:
    name: str
    address: str
    since: datetime
    is_this: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountView:
    organizations: Sequence[ShownOrganization]
    invitations: Sequence[ShownInvitation]
    projects: AccountProjects
    keys: Sequence[ShownKey]
    browsers: Sequence[ShownBrowser]
    more_browsers: int


async def read(services: Services, context: Context, signed_in_user: SignedInUser) -> AccountView:
    now = clock.now()
    async with services.store.read() as rows:
        invitations = await _load_invitations(
            rows, await rows.invitations.list_by_email(signed_in_user.user.email, now)
        )
        keys = await rows.api_keys.list_personal(signed_in_user.user.id)
        sessions = await rows.sessions.list_by_user(signed_in_user.user.id, now)
    return AccountView(
        organizations=_organizations(signed_in_user),
        invitations=invitations,
        projects=await account_projects.read(context),
        keys=[_key(key, services.key_usage) for key in keys],
        browsers=[_browser(each, signed_in_user.session) for each in sessions[:MAX_BROWSERS]],
        more_browsers=max(0, len(sessions) - MAX_BROWSERS),
    )


def _organizations(signed_in_user: SignedInUser) -> list[ShownOrganization]:
    return [
        ShownOrganization(
            name=each.organization.name,
            role=each.role or "",
            is_personal=each.organization.personal_for == signed_in_user.user.id,
        )
        for each in signed_in_user.principal.memberships.values()
    ]


async def _load_invitations(rows: Rows, pending: Sequence[Invitation]) -> list[ShownInvitation]:
    organizations = await rows.organizations.get_many({each.org_id for each in pending})
    inviters = await rows.users.get_many({each.invited_by for each in pending})
    return [
        ShownInvitation(
            id=each.id,
            organization=organizations[each.org_id].name,
            role=each.role,
            inviter=inviters[each.invited_by].email if each.invited_by in inviters else "",
            until=each.expires_at,
        )
        for each in pending
        if each.org_id in organizations
    ]


def _key(key: ApiKey, usage: KeyUsage) -> ShownKey:
    at, address = usage.last_use(key.id) or (key.last_used_at, key.last_used_from)
    return ShownKey(id=key.id, name=key.name, created=key.created_at, last_used=at, last_used_from=address)


def _browser(session: Session, current: Session) -> ShownBrowser:
    return ShownBrowser(
        name=user_agents.describe_user_agent(session.agent),
        address=session.address,
        since=session.created_at,
        is_this=session.digest == current.digest,
    )
