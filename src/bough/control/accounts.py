"""Accounts: a person, their personal organization, and links with which they begin."""

import secrets
from dataclasses import dataclass, replace
from datetime import timedelta

from bough import clock
from bough.access.keys import Keys
from bough.access.principal import Principal, memberships
from bough.control import mail
from bough.control.desk import Desk
from bough.control.recording import Record
from bough.domain import email_address
from bough.domain.api_key import KeyKind
from bough.domain.audit import Actor, ActorKind
from bough.domain.link import Link, Purpose
from bough.domain.organization import Member, MemberRole, Organization
from bough.domain.session import Session
from bough.domain.user import User
from bough.errors import Denied, NotFound, Taken
from bough.ids import MemberId, OrganizationId, UserId
from bough.store.queries import Duplicate
from bough.store.store import Rows

PLAN = "free"  # of new accounts
_LINK_LIFE = {
    Purpose.SIGN_UP: timedelta(days=1),
    Purpose.RESET: timedelta(hours=2),
    Purpose.WELCOME: timedelta(days=30),
}
BY_OPERATOR = timedelta(days=7)  # a link that the operator hands over may take its time


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Somebody at a page, known or not."""

    address: str
    agent: str
    request_id: str

    def record(self, actor: Actor, action: str, thing: str = "") -> Record:
        return Record(actor, action, address=self.address, request_id=self.request_id, thing=thing)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    user: User
    session: Session
    principal: Principal


def nobody(name: str, user: User | None = None) -> Actor:
    """Somebody who has not shown who they are; `user` is whom they may be."""
    return Actor(kind=ActorKind.NOBODY, name=name, user_id=user.id if user else None)


def person(user: User) -> Actor:
    return Actor(kind=ActorKind.PERSON, name=user.email, user_id=user.id)


async def principal_of(rows: Rows, user: User) -> Principal:
    """Somebody who signed in reaches what their personal keys reach."""
    reached = await rows.organizations.reached_by(user.id)
    return Principal(
        kind=KeyKind.PERSONAL, key_id=None, name=user.email, user_id=user.id, memberships=memberships(reached)
    )


async def add(rows: Rows, email: str, name: str, password_digest: str | None) -> User:
    """A person with their personal organization. Their address was shown to be theirs, or the operator says so."""
    now = clock.now()
    shown = name.strip() or email.partition("@")[0]
    user = User(
        id=UserId.new(),
        email=email,
        name=shown,
        last_name="",
        plan=PLAN,
        created_at=now,
        updated_at=now,
        password_digest=password_digest,
    )
    try:
        await rows.users.add(user)
    except Duplicate:
        raise Taken(f"Somebody has an account with the address {email} already.") from None
    org_id = OrganizationId.new()
    organization = Organization(
        id=org_id,
        name=shown,
        handle=org_id,
        plan=PLAN,
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
    purpose: Purpose,
    email: str,
    *,
    user: User | None = None,
    life: timedelta | None = None,
) -> str:
    """The token of a new link, which is kept nowhere."""
    token = secrets.token_urlsafe(32)
    now = clock.now()
    link = Link(
        digest=keys.digest(token),
        purpose=purpose,
        email=email,
        user_id=user.id if user else None,
        created_at=now,
        expires_at=now + (life or _LINK_LIFE[purpose]),
    )
    await rows.links.add(link)
    return token


class Accounts:
    """What the operator does with the accounts of others."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, email: str, name: str = "") -> tuple[User, str]:
        """The account, and the address of a page that sets its password, once."""
        self._check_is_operator()
        parsed = email_address.parse(email)
        async with self._desk.transaction() as rows:
            user = await add(rows, parsed, name, None)
            self._desk.record.about(thing=user.email)
            return user, await self._link(rows, user)

    async def reset(self, user_id: UserId) -> tuple[User, str]:
        """The old password and all sessions end at once."""
        self._check_is_operator()
        async with self._desk.transaction() as rows:
            user = await rows.users.held(user_id)
            if user is None:
                raise NotFound.thing("user")
            self._desk.record.about(thing=user.email)
            await rows.users.save(replace(user, password_digest=None, updated_at=clock.now()))
            await rows.sessions.end_all(user.id)
            await rows.links.void(user.id)
            return user, await self._link(rows, user)

    async def _link(self, rows: Rows, user: User) -> str:
        token = await add_link(rows, self._desk.keys, Purpose.RESET, user.email, user=user, life=BY_OPERATOR)
        return mail.link(self._desk.settings, f"/reset?token={token}")

    def _check_is_operator(self) -> None:
        if not self._desk.principal.is_operator:
            raise Denied("Only the operator may do this, with the key in keys/operator of the home.")
