"""Accounts: a user, their personal organization, and one-time links to sign up or set a password."""

import secrets
from dataclasses import dataclass, replace
from datetime import timedelta

from bough import clock
from bough.access.keys import Keys
from bough.access.principal import Principal, build_memberships
from bough.control.audit import AuditRecord
from bough.control.context import Context
from bough.control.platform import mail
from bough.domain import email_address
from bough.domain.api_key import KeyKind
from bough.domain.audit import Actor, ActorKind
from bough.domain.one_time_link import LinkPurpose, OneTimeLink
from bough.domain.organization import Member, MemberRole, Organization
from bough.domain.session import Session
from bough.domain.user import User
from bough.errors import Conflict, Denied, NotFound
from bough.ids import MemberId, OrganizationId, UserId
from bough.store.queries import Duplicate
from bough.store.store import Rows

DEFAULT_PLAN = "free"  # for new accounts
_LINK_LIFETIME = {
    LinkPurpose.SIGN_UP: timedelta(days=1),
    LinkPurpose.RESET: timedelta(hours=2),
    LinkPurpose.WELCOME: timedelta(days=30),
}
OPERATOR_LINK_LIFETIME = timedelta(days=7)  # longer, because the operator passes the link on by hand


@dataclass(frozen=True, slots=True, kw_only=True)
class WebClient:
    """The client of a page request, signed in or not."""

    address: str
    user_agent: str
    request_id: str

    def audit_record(self, actor: Actor, action: str, resource: str = "") -> AuditRecord:
        return AuditRecord(actor, action, address=self.address, request_id=self.request_id, resource=resource)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedInUser:
    user: User
    session: Session
    principal: Principal


def anonymous_actor(name: str, user: User | None = None) -> Actor:
    """Return an actor who is not authenticated; `user` is the account they claim to be."""
    return Actor(kind=ActorKind.ANONYMOUS, name=name, user_id=user.id if user else None)


def person_actor(user: User) -> Actor:
    return Actor(kind=ActorKind.PERSON, name=user.email, user_id=user.id)


async def load_principal(rows: Rows, user: User) -> Principal:
    """Return the principal of a signed-in user, with the rights of their personal keys."""
    memberships = await rows.organizations.list_memberships(user.id)
    return Principal(
        kind=KeyKind.PERSONAL, key_id=None, name=user.email, user_id=user.id, memberships=build_memberships(memberships)
    )


async def add_account(rows: Rows, email: str, name: str, password_digest: str | None) -> User:
    """Add a user and their personal organization. The caller has verified the address."""
    now = clock.now()
    display_name = name.strip() or email.partition("@")[0]
    user = User(
        id=UserId.new(),
        email=email,
        name=display_name,
        last_name="",
        plan=DEFAULT_PLAN,
        created_at=now,
        updated_at=now,
        password_digest=password_digest,
    )
    try:
        await rows.users.add(user)
    except Duplicate:
        raise Conflict(f"An account with the address {email} already exists.") from None
    org_id = OrganizationId.new()
    organization = Organization(
        id=org_id,
        name=display_name,
        handle=org_id,
        plan=DEFAULT_PLAN,
        personal_for=user.id,
        created_at=now,
        updated_at=now,
        created_by=user.id,
    )
    await rows.organizations.add(organization)
    await rows.members.add(
        Member(id=MemberId.new(), org_id=org_id, user_id=user.id, role=MemberRole.ADMIN, joined_at=now)
    )
    return user


async def add_link(
    rows: Rows,
    keys: Keys,
    purpose: LinkPurpose,
    email: str,
    *,
    user: User | None = None,
    lifetime: timedelta | None = None,
) -> str:
    """Add a one-time link and return its token, which is not stored."""
    token = secrets.token_urlsafe(32)
    now = clock.now()
    link = OneTimeLink(
        digest=keys.digest(token),
        purpose=purpose,
        email=email,
        user_id=user.id if user else None,
        created_at=now,
        expires_at=now + (lifetime or _LINK_LIFETIME[purpose]),
    )
    await rows.links.add(link)
    return token


async def create_account(context: Context, email: str, name: str = "") -> tuple[User, str]:
    """Create an account; return it with a one-time link that sets its password."""
    _check_is_operator(context)
    parsed = email_address.parse_email_address(email)
    async with context.transaction() as rows:
        user = await add_account(rows, parsed, name, None)
        context.audit.add_details(resource=user.email)
        return user, await _add_password_link(context, rows, user)


async def reset_account_password(context: Context, user_id: UserId) -> tuple[User, str]:
    """Clear the password and end all sessions; return the user and a one-time link that sets a new password."""
    _check_is_operator(context)
    async with context.transaction() as rows:
        user = await rows.users.get_for_update(user_id)
        if user is None:
            raise NotFound.resource("user")
        context.audit.add_details(resource=user.email)
        await rows.users.save(replace(user, password_digest=None, updated_at=clock.now()))
        await rows.sessions.delete_by_user(user.id)
        await rows.links.delete_by_user(user.id)
        return user, await _add_password_link(context, rows, user)


async def _add_password_link(context: Context, rows: Rows, user: User) -> str:
    token = await add_link(
        rows, context.services.keys, LinkPurpose.RESET, user.email, user=user, lifetime=OPERATOR_LINK_LIFETIME
    )
    return mail.page_url(context.services.settings, f"/reset?token={token}")


def _check_is_operator(context: Context) -> None:
    if not context.principal.is_operator:
        raise Denied("Only the operator may do this, with the key in keys/operator of the home.")
