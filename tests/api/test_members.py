"""Members of an organization: who can see and change them, and the last admin."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from bough.control.people.members import remove_member, set_member_role
from bough.domain.api_key import KeyKind
from bough.domain.organization import Member, MemberRole, Organization
from bough.domain.rights import ProjectRole
from bough.errors import Denied, NotFound
from bough.ids import MemberId, ProjectId
from bough.store.audit import AuditQuery
from bough.store.grants import NO_GRANT, ProjectGrant
from support.accounts import add_account, add_key, add_member
from support.api_app import ApiApp
from support.api_client import Caller, Json, create_caller, make_stale_context

ORDERS = list(product(("email", "role", "joined_at"), ("asc", "desc")))
NOBODY = "00000000-0000-4000-8000-000000000000"
VIEWER = MemberRole.VIEWER


def _members(organization: Organization) -> str:
    return f"/organizations/{organization.id}/members"


def _one(member: Member) -> str:
    return f"/organizations/{member.org_id}/members/{member.id}"


async def _own(caller: Caller, organization: Organization) -> Member:
    async with caller.api_app.services.store.read() as rows:
        seen = await rows.members.get_by_user(organization.id, caller.user.id)
    assert seen is not None
    return seen.member


async def _admins(caller: Caller, organization: Organization) -> int:
    async with caller.api_app.services.store.read() as rows:
        return await rows.members.count_admins(organization.id)


async def _crowd(caller: Caller, size: int) -> Organization:
    """Creates an organization with an admin and more members, in pairs with the same role and partly the same time."""
    team, parts = await caller.create_organization(), caller.api_app.services
    began = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(size):
        account = await add_account(parts)
        joined = began + timedelta(microseconds=number // 3)
        role = list(MemberRole)[1 + number // 2 % 4]
        member = Member(id=MemberId.new(), org_id=team.id, user_id=account.user.id, role=role, joined_at=joined)
        async with parts.store.transaction() as rows:
            await rows.members.add(member)
    return team


async def _pages(caller: Caller, organization: Organization, **query: Any) -> AsyncIterator[list[Json]]:
    cursor: Json = {}
    while True:
        response = await caller.client.get(_members(organization), params={**query, **cursor})
        assert response.status_code == 200, response.text
        yield response.json()["members"]
        if "next" not in response.json()["pagination"]:
            return
        cursor = {"cursor": response.json()["pagination"]["next"]}


def _value(row: Json, by: str) -> Any:
    if by == "email":
        return row["user"]["email"]
    value = row["member"][by]
    return datetime.fromisoformat(value) if by == "joined_at" else value


def _cursor(*parts: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


async def test_they_are_listed_with_their_addresses_the_newest_first(caller: Caller, stranger: Caller) -> None:
    team = await caller.create_organization()
    member = await stranger.join_organization(team, MemberRole.VIEWER)
    response = (await caller.client.get(_members(team))).json()
    assert response["pagination"] == {"sort_by": "joined_at", "sort_order": "desc"}
    newest, first = response["members"]
    assert newest["user"] == {"email": stranger.user.email}
    assert (newest["member"]["id"], newest["member"]["role"]) == (member.id, "viewer")
    assert (first["member"]["user_id"], first["user"]["email"]) == (caller.user.id, caller.user.email)
    assert (await caller.client.get(_one(member))).json() == newest["member"]


@pytest.mark.parametrize(("by", "order"), ORDERS)
async def test_pages_hold_everybody_once_and_in_order(caller: Caller, by: str, order: str) -> None:
    team = await _crowd(caller, 7)
    pages = [page async for page in _pages(caller, team, sort_by=by, sort_order=order, limit=3)]
    assert [len(page) for page in pages] == [3, 3, 2]
    seen = [row for page in pages for row in page]
    assert len({row["member"]["id"] for row in seen}) == 8
    values = [_value(row, by) for row in seen]
    assert values == sorted(values, reverse=order == "desc")


async def test_a_page_that_is_just_full_is_the_last(caller: Caller) -> None:
    team = await _crowd(caller, 3)
    assert [len(page) async for page in _pages(caller, team, limit=2)] == [2, 2]


async def test_who_comes_and_goes_between_pages_hides_nobody_and_shows_nobody_twice(
    caller: Caller, stranger: Caller
) -> None:
    team = await _crowd(caller, 6)
    everybody = [row["member"]["id"] for row in (await caller.client.get(_members(team))).json()["members"]]
    pages = _pages(caller, team, limit=3)
    first = [row["member"]["id"] for row in await anext(pages)]
    await stranger.join_organization(team)  # the newest member comes before the end of the page
    assert (await caller.client.delete(f"{_members(team)}/{first[2]}")).status_code == 200
    rest = [row["member"]["id"] async for page in pages for row in page]
    assert first + rest == everybody


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "é",
        "%00",
        _cursor(),
        _cursor("joined_at", True, "yesterday", NOBODY),
        _cursor("joined_at", True, 7, NOBODY),
        _cursor("joined_at", True, "0001-01-01T00:00:00+14:00", NOBODY),
        _cursor("joined_at", True, "2026-01-01T00:00:00+00:00", "Not An Id"),
        _cursor("joined_at", True, "2026-01-01T00:00:00+00:00", 7),
        _cursor("email", True, "a\0b", NOBODY),
        "W" * 4000,
    ],
)
async def test_a_cursor_that_nobody_gave_is_refused(caller: Caller, cursor: str) -> None:
    by = "email" if cursor == _cursor("email", True, "a\0b", NOBODY) else "joined_at"
    response = await caller.client.get(_members(caller.organization), params={"cursor": cursor, "sort_by": by})
    assert (response.status_code, "was not issued by this API" in response.json()["message"]) == (400, True)


async def test_a_cursor_goes_with_its_order(caller: Caller) -> None:
    team = await _crowd(caller, 1)
    cursor = (await caller.client.get(_members(team), params={"limit": 1})).json()["pagination"]["next"]
    for other in ({"sort_by": "email"}, {"sort_order": "asc"}):
        response = await caller.client.get(_members(team), params={"cursor": cursor, **other})
        assert (response.status_code, "belongs to another sort order" in response.json()["message"]) == (400, True)


@pytest.mark.parametrize(
    "query", [{"limit": 0}, {"limit": 501}, {"limit": "all"}, {"sort_by": "name"}, {"sort_order": "up"}]
)
async def test_a_question_out_of_bounds_is_refused(caller: Caller, query: Json) -> None:
    assert (await caller.client.get(_members(caller.organization), params=query)).status_code == 400


@pytest.mark.parametrize("role", MemberRole)
async def test_who_sees_whom(caller: Caller, stranger: Caller, role: MemberRole) -> None:
    """Collaborators see only themselves."""
    team = await caller.create_organization()
    other, own = await _own(caller, team), await stranger.join_organization(team, role)
    inside = role is not MemberRole.COLLABORATOR
    assert (await stranger.client.get(_members(team))).status_code == (200 if inside else 403)
    assert (await stranger.client.get(_one(other))).status_code == (200 if inside else 403)
    assert (await stranger.client.get(f"{_members(team)}/{NOBODY}")).status_code == (404 if inside else 403)
    assert (await stranger.client.get(_one(own))).json()["role"] == role


async def test_keys_of_the_organization_see_its_members_and_change_none(api_app: ApiApp, caller: Caller) -> None:
    team = await caller.create_organization()
    project_id = await caller.create_ready_project(org_id=team.id)
    own, other = (
        await _own(caller, team),
        await add_member(api_app.services, team, await add_account(api_app.services), VIEWER),
    )
    for kind, only, sees in ((KeyKind.ORGANIZATION, None, 200), (KeyKind.PROJECT, project_id, 403)):
        token = await add_key(api_app.services, caller.account, kind, org_id=team.id, project_id=only)
        async with api_app.client(token) as client:
            assert (await client.get(_members(team))).status_code == sees
            for member in (own, other):  # a key does not count as its creator
                assert (await client.get(_one(member))).status_code == sees
                assert (await client.patch(_one(member), json={"role": "admin"})).status_code == 403
                assert (await client.delete(_one(member))).status_code == 403


async def test_strangers_are_told_the_same_as_of_nothing(caller: Caller, stranger: Caller) -> None:
    team = await caller.create_organization()
    own = await _own(caller, team)
    await stranger.create_organization()
    for method, body in (("GET", None), ("PATCH", {"role": "viewer"}), ("DELETE", None)):
        answers = [
            await stranger.client.request(method, path, json=body)
            for path in (_one(own), f"/organizations/org-none/members/{own.id}")
        ]
        assert {(each.status_code, each.json()["message"]) for each in answers} == {(404, answers[0].json()["message"])}


@pytest.mark.parametrize(("method", "body"), [("GET", None), ("PATCH", {"role": "viewer"}), ("DELETE", None)])
async def test_a_member_that_is_not_there(caller: Caller, stranger: Caller, method: str, body: Any) -> None:
    team, elsewhere = await caller.create_organization(), await _own(stranger, stranger.organization)
    for member_id in (NOBODY, elsewhere.id):
        response = await caller.client.request(method, f"{_members(team)}/{member_id}", json=body)
        assert (response.status_code, "requested member" in response.json()["message"]) == (404, True)
    for member_id in ("7", "x" * 36, NOBODY + "0"):
        response = await caller.client.request(method, f"{_members(team)}/{member_id}", json=body)
        assert response.status_code == 400


@pytest.mark.parametrize("role", MemberRole)
async def test_admins_change_roles(caller: Caller, stranger: Caller, role: MemberRole) -> None:
    team = await caller.create_organization()
    member = await stranger.join_organization(team, role)
    other = await add_member(caller.api_app.services, team, await add_account(caller.api_app.services), VIEWER)
    response = await stranger.client.patch(_one(other), json={"role": "editor"})
    may = role is MemberRole.ADMIN
    assert response.status_code == (200 if may else 403)
    assert (await caller.client.get(_one(other))).json()["role"] == ("editor" if may else "viewer")
    if not may:  # users cannot promote themselves
        assert (await stranger.client.patch(_one(member), json={"role": "admin"})).status_code == 403


@pytest.mark.parametrize("role", MemberRole)
async def test_every_role_can_be_given_and_counts_at_once(caller: Caller, stranger: Caller, role: MemberRole) -> None:
    team = await caller.create_organization()
    member = await stranger.join_organization(team, VIEWER)
    changed = (await caller.client.patch(_one(member), json={"role": role})).json()
    assert (changed["id"], changed["role"]) == (member.id, role)
    assert (await caller.client.get(_one(member))).json() == changed
    creates = {MemberRole.ADMIN: 201, MemberRole.MEMBER: 201}.get(role, 403)
    response = await stranger.client.post("/projects", json={"project": {"org_id": team.id}})
    assert response.status_code == creates


@pytest.mark.parametrize("body", [None, {}, {"role": "owner"}, {"role": None}, {"role": 7}, {"role": "Admin"}, []])
async def test_a_role_that_is_none_is_refused(caller: Caller, body: Any) -> None:
    own = await _own(caller, caller.organization)
    assert (await caller.client.patch(_one(own), json=body)).status_code == 400


async def test_the_last_admin_stays_one(caller: Caller, stranger: Caller) -> None:
    team = await caller.create_organization()
    own, other = await _own(caller, team), await stranger.join_organization(team)
    assert (await caller.client.patch(_one(own), json={"role": "admin"})).status_code == 200
    for response in (
        await caller.client.patch(_one(own), json={"role": "member"}),
        await caller.client.delete(_one(own)),
    ):
        assert (response.status_code, "Make another member an admin first" in response.json()["message"]) == (422, True)
    await caller.client.patch(_one(other), json={"role": "admin"})
    assert (await caller.client.patch(_one(own), json={"role": "member"})).json()["role"] == "member"
    assert (await caller.client.delete(_one(own))).json() == {}
    assert await _admins(stranger, team) == 1


@pytest.mark.parametrize(("method", "body"), [("PATCH", {"role": "viewer"}), ("DELETE", None)])
async def test_of_two_admins_who_step_down_at_once_one_remains(
    caller: Caller, stranger: Caller, method: str, body: Any
) -> None:
    team = await caller.create_organization()
    own, other = await _own(caller, team), await stranger.join_organization(team, MemberRole.ADMIN)
    answers = await asyncio.gather(
        caller.client.request(method, _one(own), json=body), stranger.client.request(method, _one(other), json=body)
    )
    assert sorted(response.status_code for response in answers) == [200, 422]
    assert await _admins(caller, team) == 1


@pytest.mark.parametrize(("method", "body"), [("PATCH", {"role": "viewer"}), ("DELETE", None)])
async def test_of_two_admins_who_turn_on_one_another_at_once_one_remains(
    caller: Caller, stranger: Caller, method: str, body: Any
) -> None:
    team = await caller.create_organization()
    own, other = await _own(caller, team), await stranger.join_organization(team, MemberRole.ADMIN)
    answers = await asyncio.gather(
        caller.client.request(method, _one(other), json=body), stranger.client.request(method, _one(own), json=body)
    )
    assert sorted(response.status_code for response in answers) in ([200, 403], [200, 404])
    assert await _admins(caller, team) == 1


@pytest.mark.parametrize("role", MemberRole)
async def test_admins_remove_others_and_everybody_leaves(caller: Caller, stranger: Caller, role: MemberRole) -> None:
    team = await caller.create_organization()
    member = await stranger.join_organization(team, role)
    other = await add_member(caller.api_app.services, team, await add_account(caller.api_app.services), VIEWER)
    response = await stranger.client.delete(_one(other))
    assert response.status_code == (200 if role is MemberRole.ADMIN else 403)
    assert (await stranger.client.delete(_one(member))).json() == {}
    assert (await stranger.client.get(f"/organizations/{team.id}")).status_code == 404
    assert (await caller.client.get(_one(member))).status_code == 404


async def test_whoever_is_removed_reaches_nothing_of_it_any_more(caller: Caller, stranger: Caller) -> None:
    team = await caller.create_organization()
    project_id, kept = await caller.create_ready_project(org_id=team.id), await stranger.create_ready_project()
    member = await stranger.join_organization(team, MemberRole.COLLABORATOR)
    async with caller.api_app.services.store.transaction() as rows:
        for each in (project_id, kept):
            await rows.grants.set_role(ProjectId(each), stranger.user.id, ProjectRole.EDITOR)
    assert (await stranger.client.get(f"/projects/{project_id}")).status_code == 200
    assert (await caller.client.delete(_one(member))).status_code == 200
    assert (await stranger.client.get(f"/projects/{project_id}")).status_code == 404
    await stranger.join_organization(team, MemberRole.COLLABORATOR)  # a member who returns has no project roles
    assert (await stranger.client.get(f"/projects/{project_id}")).status_code == 404
    async with caller.api_app.services.store.read() as rows:
        granted = [
            await rows.grants.get(stranger.user.id, stranger.user.email, ProjectId(each)) for each in (project_id, kept)
        ]
    assert granted == [NO_GRANT, ProjectGrant(ProjectRole.EDITOR)]


async def test_nobody_leaves_their_personal_organization(caller: Caller) -> None:
    own = await _own(caller, caller.organization)
    response = await caller.client.delete(_one(own))
    assert (response.status_code, "personal organization" in response.json()["message"]) == (422, True)
    assert (await caller.client.patch(_one(own), json={"role": "viewer"})).status_code == 422
    assert (await caller.client.get(_one(own))).json()["role"] == "admin"


async def test_a_role_that_was_taken_away_meanwhile_does_not_count(caller: Caller, stranger: Caller) -> None:
    team = await caller.create_organization()
    own, member = await _own(caller, team), await stranger.join_organization(team, MemberRole.ADMIN)
    context = await make_stale_context(stranger)
    await caller.client.patch(_one(member), json={"role": "viewer"})
    for change in (set_member_role(context, team, own.id, VIEWER), remove_member(context, team, own.id)):
        with pytest.raises(Denied):
            await change
    await caller.client.delete(_one(member))
    for change in (set_member_role(context, team, own.id, VIEWER), remove_member(context, team, member.id)):
        with pytest.raises(NotFound):
            await change
    assert await _admins(caller, team) == 1


async def test_the_audit_says_who_did_what_to_whom(api_app: ApiApp, caller: Caller) -> None:
    team = await caller.create_organization()
    invitee = await create_caller(api_app)
    member = await invitee.join_organization(team, VIEWER)
    await caller.client.patch(_one(member), json={"role": "editor"})
    await invitee.client.delete(_one(member))
    await invitee.client.aclose()
    async with api_app.services.store.read() as rows:
        left, changed = await rows.audit.page(AuditQuery(org_id=team.id), 10, None)
    assert (changed.action, changed.user_id) == ("update_organization_member", caller.user.id)
    assert (changed.resource, changed.details) == (invitee.user.email, {"role": "editor", "former_role": "viewer"})
    assert (left.action, left.user_id) == ("remove_organization_member", invitee.user.id)
    assert (left.resource, left.details) == (invitee.user.email, {"former_role": "editor"})
