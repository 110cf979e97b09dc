"""Rows of users, organizations, members, invitations, sessions, links and mail messages."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from bough.domain.invitation import Invitation
from bough.domain.one_time_link import LinkPurpose, OneTimeLink
from bough.domain.organization import Member, MemberRole, Organization
from bough.domain.session import Session
from bough.domain.user import OPERATOR, User
from bough.ids import InvitationId, MemberId, OrganizationId, UserId
from bough.store.members import MemberAndUser, MemberSortOrder, SortBy
from bough.store.paging import SortPosition
from bough.store.queries import Duplicate
from bough.store.store import Store
from support.stores import NOON, ORGANIZATION

SOON, LATER = NOON + timedelta(minutes=1), NOON + timedelta(hours=1)
SORTS: tuple[SortBy, ...] = ("email", "role", "joined_at")
ORDERS = list(product(SORTS, (True, False)))


def make_user(email: str, **changes: Any) -> User:
    fields: dict[str, Any] = {"name": "Ada", "last_name": "Lin", "plan": "free", "created_at": NOON, "updated_at": NOON}
    return User(id=UserId.new(), email=email, **{**fields, **changes})


def make_organization(**changes: Any) -> Organization:
    org_id = OrganizationId.new()
    fields: dict[str, Any] = {"name": "Grün 🌿", "plan": "free", "personal_for": None, "created_at": NOON}
    return Organization(id=org_id, handle=org_id, updated_at=NOON, **{**fields, **changes})


def make_member(
    organization: Organization, user: User, role: MemberRole = MemberRole.VIEWER, minute: int = 0
) -> Member:
    joined = NOON + timedelta(minutes=minute)
    return Member(id=MemberId.new(), org_id=organization.id, user_id=user.id, role=role, joined_at=joined)


def make_invitation(org_id: OrganizationId, email: str, **changes: Any) -> Invitation:
    invitation_id = InvitationId.new()
    fields: dict[str, Any] = {"role": MemberRole.EDITOR, "digest": f"digest of {invitation_id}", "invited_at": NOON}
    fields |= {"invited_by": OPERATOR, "expires_at": LATER}
    return Invitation(id=invitation_id, org_id=org_id, email=email, **{**fields, **changes})


def make_link(digest: str, **changes: Any) -> OneTimeLink:
    fields: dict[str, Any] = {"purpose": LinkPurpose.RESET, "email": "ada@example.com", "user_id": OPERATOR}
    fields |= {"created_at": NOON, "expires_at": LATER}
    return OneTimeLink(digest=digest, **{**fields, **changes})


def make_session(digest: str, user_id: UserId = OPERATOR, **changes: Any) -> Session:
    fields: dict[str, Any] = {"address": "192.0.2.1", "agent": "a browser", "created_at": NOON, "expires_at": LATER}
    return Session(digest=digest, user_id=user_id, **{**fields, **changes})


async def _create_team(store: Store, *emails: str) -> tuple[Organization, list[MemberAndUser]]:
    """Creates an organization whose members joined in pairs."""
    team, seen = make_organization(), []
    async with store.transaction() as rows:
        await rows.organizations.add(team)
        for number, email in enumerate(emails):
            user = make_user(email)
            member = make_member(team, user, list(MemberRole)[number % 3], number // 2)
            await rows.users.add(user)
            await rows.members.add(member)
            seen.append(MemberAndUser(member, user))
    return team, seen


async def test_a_user_is_found_by_id_and_by_address(store: Store) -> None:
    ada, bob = make_user("ada@example.com"), make_user("bob@example.com", created_at=SOON)
    async with store.transaction() as rows:
        await rows.users.add(bob)
        await rows.users.add(ada)
    changed = replace(ada, name="Äda", password_digest="scrypt$…", plan="pro")
    async with store.transaction() as rows:
        await rows.users.save(changed)
    async with store.read() as rows:
        assert await rows.users.get(ada.id) == changed
        assert await rows.users.get_by_email("bob@example.com") == bob
        assert await rows.users.get_by_email("Bob@example.com") is None
        assert await rows.users.get_many([ada.id, UserId.new()]) == {ada.id: changed}
        assert await rows.users.get_many([]) == {}
        assert [each.id for each in await rows.users.list_all() if not each.is_operator] == [ada.id, bob.id]


async def test_an_address_has_one_account(store: Store) -> None:
    async with store.transaction() as rows:
        await rows.users.add(make_user("ada@example.com"))
    with pytest.raises(Duplicate):
        async with store.transaction() as rows:
            await rows.users.add(make_user("ada@example.com"))


async def test_organizations_are_reached_through_memberships(store: Store) -> None:
    ada = make_user("ada@example.com")
    personal = make_organization(personal_for=ada.id)
    team = make_organization(created_at=SOON)
    async with store.transaction() as rows:
        await rows.users.add(ada)
        for each, role in ((team, MemberRole.VIEWER), (personal, MemberRole.ADMIN)):
            await rows.organizations.add(each)
            await rows.members.add(make_member(each, ada, role))
    renamed = replace(team, name="renamed", updated_at=LATER)
    async with store.transaction() as rows:
        await rows.organizations.lock(team.id)
        await rows.organizations.save(renamed)
    async with store.read() as rows:
        assert await rows.organizations.get(team.id) == renamed
        assert await rows.organizations.list_by_user(ada.id) == [personal, renamed]
        reached = await rows.organizations.list_memberships(ada.id)
        assert reached == [(personal, MemberRole.ADMIN), (renamed, MemberRole.VIEWER)]
        assert await rows.organizations.get_personal(ada.id) == personal
        assert await rows.organizations.get_personal(UserId.new()) is None
        assert await rows.organizations.get_many([team.id, OrganizationId.new()]) == {team.id: renamed}


async def test_a_lock_on_an_organization_lets_one_decide_at_a_time(store: Store) -> None:
    team, seen = await _create_team(store, "a@example.com", "b@example.com")
    async with store.transaction() as rows:
        for each in seen:
            await rows.members.set_role(each.member, MemberRole.ADMIN)

    async def step_down(member: Member) -> bool:
        async with store.transaction() as rows:
            await rows.organizations.lock(team.id)
            if await rows.members.count_admins(team.id) <= 1:
                return False
            await asyncio.sleep(0.01)  # lets the other task arrive
            await rows.members.set_role(member, MemberRole.VIEWER)
            return True

    assert sorted(await asyncio.gather(*(step_down(each.member) for each in seen))) == [False, True]


async def test_a_member_is_found_changed_and_removed(store: Store) -> None:
    team, (ada, bob, _) = await _create_team(store, "ada@example.com", "bob@example.com", "eve@example.com")
    async with store.transaction() as rows:
        await rows.members.set_role(ada.member, MemberRole.EDITOR)
        await rows.members.remove(bob.member)
    async with store.read() as rows:
        changed = MemberAndUser(replace(ada.member, role=MemberRole.EDITOR), ada.user)
        assert await rows.members.get(team.id, ada.member.id) == changed
        assert await rows.members.get_by_user(team.id, ada.user.id) == changed
        assert await rows.members.get(ORGANIZATION, ada.member.id) is None
        assert await rows.members.get(team.id, bob.member.id) is None
        assert await rows.members.get_by_user(team.id, bob.user.id) is None
        assert await rows.members.count_admins(team.id) == 0
        assert await rows.members.count_admins(ORGANIZATION) == 1
        requested = ["eve@example.com", "bob@example.com", "ada@example.com", "nobody@example.com"]
        assert await rows.members.list_member_emails(team.id, requested) == ["ada@example.com", "eve@example.com"]
        assert await rows.members.list_member_emails(ORGANIZATION, requested) == []


async def test_nobody_is_a_member_twice(store: Store) -> None:
    team, (ada,) = await _create_team(store, "ada@example.com")
    with pytest.raises(Duplicate):
        async with store.transaction() as rows:
            await rows.members.add(make_member(team, ada.user))


async def _read_all_pages(store: Store, org_id: OrganizationId, order: MemberSortOrder) -> list[MemberAndUser]:
    found: list[MemberAndUser] = []
    after: SortPosition | None = None
    async with store.read() as rows:
        while True:
            page, after = await rows.members.page(org_id, order, limit=2, after=after)
            found += page
            if after is None:
                return found


async def test_pages_of_members_hold_everybody_once_and_in_order(store: Store) -> None:
    team, seen = await _create_team(store, *(f"{name}@example.com" for name in ("d", "b", "e", "a", "c")))
    for by, is_descending in ORDERS:
        order = MemberSortOrder(by=by, is_descending=is_descending)
        found = await _read_all_pages(store, team.id, order)
        positions = [(position.value, position.id) for position in map(order.position_of, found)]
        assert positions == sorted(positions, reverse=is_descending), order
        assert {each.member.id for each in found} == {each.member.id for each in seen}, order
        assert len(found) == len(seen), order


async def test_an_invitation_takes_the_place_of_the_earlier_to_the_address(store: Store) -> None:
    team, _ = await _create_team(store)
    first, other = make_invitation(team.id, "ada@example.com"), make_invitation(team.id, "bob@example.com")
    elsewhere = make_invitation(ORGANIZATION, "ada@example.com", invited_at=NOON - timedelta(minutes=1))
    second = make_invitation(team.id, "ada@example.com", role=MemberRole.ADMIN, invited_at=SOON)
    async with store.transaction() as rows:
        for each in (first, other, elsewhere, second):
            await rows.invitations.replace(each)
    async with store.read() as rows:
        assert await rows.invitations.get(first.id, NOON) is None
        assert await rows.invitations.get_by_digest(first.digest, NOON) is None
        assert await rows.invitations.get(second.id, NOON) == second
        assert await rows.invitations.get_by_digest(second.digest, NOON) == second
        assert await rows.invitations.list_in_organization(team.id, NOON) == [other, second]
        assert await rows.invitations.list_by_email("ada@example.com", NOON) == [elsewhere, second]


async def test_an_invitation_is_used_once(store: Store) -> None:
    invitation = make_invitation(ORGANIZATION, "ada@example.com")
    async with store.transaction() as rows:
        await rows.invitations.replace(invitation)

    async def use() -> int:
        async with store.transaction() as rows:
            return await rows.invitations.remove(invitation.id)

    assert sorted(await asyncio.gather(use(), use())) == [0, 1]


async def test_an_expired_invitation_is_not_found_and_then_forgotten(store: Store) -> None:
    short = make_invitation(ORGANIZATION, "ada@example.com", expires_at=SOON)
    long = make_invitation(ORGANIZATION, "bob@example.com")
    async with store.transaction() as rows:
        await rows.invitations.replace(short)
        await rows.invitations.replace(long)
    async with store.read() as rows:
        assert await rows.invitations.get(short.id, SOON) is None
        assert await rows.invitations.get_by_digest(short.digest, SOON) is None
        assert await rows.invitations.list_in_organization(ORGANIZATION, SOON) == [long]
        assert await rows.invitations.list_by_email("ada@example.com", SOON) == []
    async with store.transaction() as rows:
        assert await rows.invitations.delete_expired(SOON) == 1
        assert await rows.invitations.remove(short.id) == 0


async def test_a_session_is_found_with_its_person_until_it_expires_or_ends(store: Store) -> None:
    ada = make_user("ada@example.com", password_digest="scrypt$…")
    here, there = make_session("here", ada.id), make_session("there", ada.id, created_at=SOON, expires_at=SOON)
    other = make_session("other")
    async with store.transaction() as rows:
        await rows.users.add(ada)
        for each in (here, there, other):
            await rows.sessions.add(each)
    async with store.read() as rows:
        assert await rows.sessions.get("here", NOON) == (here, ada)
        assert await rows.sessions.get("nowhere", NOON) is None
        assert await rows.sessions.list_by_user(ada.id, NOON) == [there, here]
        assert await rows.sessions.get("there", SOON) is None
        assert await rows.sessions.list_by_user(ada.id, SOON) == [here]
    async with store.transaction() as rows:
        assert await rows.sessions.delete_expired(SOON) == 1
        await rows.sessions.delete("here")
        assert await rows.sessions.get("here", NOON) is None
        assert await rows.sessions.get("other", NOON) is not None


async def test_all_sessions_of_a_person_end_but_the_one_at_hand(store: Store) -> None:
    ada = make_user("ada@example.com")
    async with store.transaction() as rows:
        await rows.users.add(ada)
        for session in (make_session("one", ada.id), make_session("two", ada.id), make_session("operator's")):
            await rows.sessions.add(session)
    async with store.transaction() as rows:
        assert await rows.sessions.delete_by_user(ada.id, except_digest="two") == 1
        assert [each.digest for each in await rows.sessions.list_by_user(ada.id, NOON)] == ["two"]
        assert await rows.sessions.delete_by_user(ada.id) == 1
        assert len(await rows.sessions.list_by_user(OPERATOR, NOON)) == 1


async def test_a_link_is_found_for_its_purpose_and_used_once(store: Store) -> None:
    link = make_link("digest", purpose=LinkPurpose.SIGN_UP, user_id=None)
    async with store.transaction() as rows:
        await rows.links.add(link)
    async with store.read() as rows:
        assert await rows.links.get("digest", LinkPurpose.SIGN_UP, NOON) == link
        assert await rows.links.get("digest", LinkPurpose.RESET, NOON) is None
        assert await rows.links.get("digest", LinkPurpose.SIGN_UP, LATER) is None

    async def use() -> int:
        async with store.transaction() as rows:
            return await rows.links.consume("digest")

    assert sorted(await asyncio.gather(use(), use())) == [0, 1]


async def test_links_of_a_person_are_void_together_and_expired_ones_forgotten(store: Store) -> None:
    ada = make_user("ada@example.com")
    async with store.transaction() as rows:
        await rows.users.add(ada)
        for link in (
            make_link("one", user_id=ada.id),
            make_link("two", user_id=ada.id, purpose=LinkPurpose.WELCOME),
            make_link("operator's"),
            make_link("old", expires_at=SOON),
        ):
            await rows.links.add(link)
    async with store.transaction() as rows:
        await rows.links.delete_by_user(ada.id)
        assert await rows.links.get("one", LinkPurpose.RESET, NOON) is None
        assert await rows.links.get("two", LinkPurpose.WELCOME, NOON) is None
        assert await rows.links.delete_expired(SOON) == 1
        assert await rows.links.get("operator's", LinkPurpose.RESET, NOON) is not None


async def test_mails_wait_in_their_order_until_they_are_due(store: Store) -> None:
    async with store.transaction() as rows:
        await rows.mail_messages.add("ada@example.com", "first", "sealed 1", NOON)
        await rows.mail_messages.add(None, "to nobody", "sealed 2", NOON)
        await rows.mail_messages.add("bob@example.com", "later", "sealed 3", SOON)
    async with store.read() as rows:
        first, anonymous = await rows.mail_messages.list_due(NOON, 10)
        assert (first.recipient, first.subject, first.sealed_text) == ("ada@example.com", "first", "sealed 1")
        assert (first.tries, first.created_at, first.due_at) == (0, NOON, NOON)
        assert (anonymous.recipient, anonymous.subject) == (None, "to nobody")
        assert await rows.mail_messages.list_due(LATER, 1) == [first]
    async with store.transaction() as rows:
        await rows.mail_messages.postpone(first, LATER)
        await rows.mail_messages.remove(anonymous.id)
    async with store.read() as rows:
        assert [each.subject for each in await rows.mail_messages.list_due(SOON, 10)] == ["later"]
        _, again = await rows.mail_messages.list_due(LATER, 10)
        assert again == replace(first, tries=1, due_at=LATER)
