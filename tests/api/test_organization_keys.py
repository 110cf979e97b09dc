"""Keys of an organization: for all projects or for one, who can create them, and revocation."""

import asyncio

import pytest
import pytest_asyncio

from bough.domain.api_key import KeyKind
from bough.domain.organization import MemberRole, Organization
from support.api_app import ApiApp
from support.api_client import Caller, Json

MAKERS = (MemberRole.MEMBER, MemberRole.EDITOR)
OTHERS = (MemberRole.VIEWER, MemberRole.COLLABORATOR)


@pytest_asyncio.fixture(loop_scope="session")
async def team(caller: Caller) -> Organization:
    """Creates an organization with the caller as admin."""
    return await caller.create_organization()


def _path(team: Organization, key: Json | None = None) -> str:
    return f"/organizations/{team.id}/api_keys" + ("" if key is None else f"/{key['id']}")


async def _made(caller: Caller, team: Organization, project_id: str | None = None, name: str = "ci") -> Json:
    body = {"key_name": name} if project_id is None else {"key_name": name, "project_id": project_id}
    response = await caller.client.post(_path(team), json=body)
    assert response.status_code == 200, response.text
    created: Json = response.json()
    return created


async def _listed(caller: Caller, team: Organization) -> list[int]:
    response = await caller.client.get(_path(team))
    assert response.status_code == 200, response.text
    return [key["id"] for key in response.json()]


async def test_an_admin_makes_a_key_that_reaches_all_projects_and_only_them(
    api_app: ApiApp, caller: Caller, team: Organization
) -> None:
    inside, outside = (
        await caller.create_ready_project(org_id=team.id, name="inside"),
        await caller.create_ready_project(),
    )
    created = await _made(caller, team)
    assert (created["name"], created["created_by"], "project_id" in created) == ("ci", caller.user.id, False)
    async with api_app.client(created["key"]) as client:
        assert (await client.get("/auth")).json()["account_id"] == team.id
        assert [each["name"] for each in (await client.get("/projects")).json()["projects"]] == ["inside"]
        assert (await client.get(f"/projects/{inside}")).status_code == 200
        assert (await client.get(f"/projects/{outside}")).status_code == 404


async def test_a_key_for_one_project_reaches_that_alone(api_app: ApiApp, caller: Caller, team: Organization) -> None:
    own, other = await caller.create_ready_project(org_id=team.id), await caller.create_ready_project(org_id=team.id)
    created = await _made(caller, team, own)
    assert created["project_id"] == own
    async with api_app.client(created["key"]) as client:
        assert (await client.get(f"/projects/{own}")).status_code == 200
        assert (await client.get(f"/projects/{other}")).status_code == 404
        for response in (await client.get(_path(team)), await client.post(_path(team), json={"key_name": "x"})):
            assert response.status_code == 403, response.text


async def test_lists_show_everything_but_the_token(api_app: ApiApp, caller: Caller, team: Organization) -> None:
    project_id = await caller.create_ready_project(org_id=team.id)
    whole, single = await _made(caller, team, name="whole"), await _made(caller, team, project_id, "single")
    async with api_app.client(single["key"], address="192.0.2.44") as client:
        await client.get("/auth")
    response = await caller.client.get(_path(team))
    assert isinstance(response.json(), list)
    assert "bough_key_" not in response.text
    first, second = response.json()
    assert (first["id"], first["name"], first["created_by"]["id"]) == (whole["id"], "whole", caller.user.id)
    assert ("project_id" in first, "last_used_at" in first, first["last_used_from_addr"]) == (False, False, "")
    assert (second["id"], second["project_id"], second["last_used_from_addr"]) == (
        single["id"],
        project_id,
        "192.0.2.44",
    )
    assert second["last_used_at"]


@pytest.mark.parametrize("role", MAKERS)
async def test_those_who_change_projects_make_and_see_their_own_keys_for_one(
    caller: Caller, stranger: Caller, team: Organization, role: MemberRole
) -> None:
    project_id = await caller.create_ready_project(org_id=team.id)
    foreign = [await _made(caller, team), await _made(caller, team, project_id)]
    await stranger.join_organization(team, role)
    assert (await stranger.client.post(_path(team), json={"key_name": "all"})).status_code == 403
    created = await _made(stranger, team, project_id)
    assert await _listed(stranger, team) == [created["id"]]
    assert await _listed(caller, team) == [*(key["id"] for key in foreign), created["id"]]
    for key in foreign:
        assert (await stranger.client.delete(_path(team, key))).status_code == 404
    assert (await stranger.client.delete(_path(team, created))).json()["project_id"] == project_id


@pytest.mark.parametrize("role", OTHERS)
async def test_others_make_see_and_revoke_none(
    caller: Caller, stranger: Caller, team: Organization, role: MemberRole
) -> None:
    project_id = await caller.create_ready_project(org_id=team.id)
    created = await _made(caller, team, project_id)
    member = await stranger.join_organization(team, role)
    role_path = f"/projects/{project_id}/members/{member.id}/role"
    assert (await caller.client.put(role_path, json={"role": "admin"})).status_code == 200
    body = {"key_name": "mine", "project_id": project_id}
    assert (await stranger.client.post(_path(team), json=body)).status_code == 403
    assert (await stranger.client.get(_path(team))).status_code == 403
    assert (await stranger.client.delete(_path(team, created))).status_code == 403


async def test_strangers_are_told_what_somebody_is_who_mistyped(
    caller: Caller, stranger: Caller, team: Organization
) -> None:
    created = await _made(caller, team)
    for method, path in (("GET", _path(team)), ("POST", _path(team)), ("DELETE", _path(team, created))):
        body = {"key_name": "mine"} if method == "POST" else None
        theirs = await stranger.client.request(method, path, json=body)
        absent = await stranger.client.request(method, path.replace(team.id, "org-none"), json=body)
        assert (theirs.status_code, theirs.json()["message"]) == (404, absent.json()["message"])
    assert await _listed(caller, team) == [created["id"]]


async def test_a_key_of_the_organization_makes_keys_for_projects_and_no_others(
    api_app: ApiApp, caller: Caller, team: Organization
) -> None:
    project_id = await caller.create_ready_project(org_id=team.id)
    whole = await _made(caller, team)
    async with api_app.client(whole["key"]) as client:
        created = (await client.post(_path(team), json={"key_name": "ci", "project_id": project_id})).json()
        assert (created["project_id"], created["created_by"]) == (project_id, caller.user.id)
        assert [key["id"] for key in (await client.get(_path(team))).json()] == [whole["id"], created["id"]]
        assert (await client.post(_path(team), json={"key_name": "twin"})).status_code == 403
        for key in (whole, created):
            assert (await client.delete(_path(team, key))).status_code == 403


async def test_it_takes_a_living_project_of_the_organization_that_one_may_change(
    caller: Caller, stranger: Caller, team: Organization
) -> None:
    own, elsewhere, deleted = (
        await caller.create_ready_project(org_id=team.id),
        await caller.create_ready_project(),
        await caller.create_ready_project(org_id=team.id),
    )
    await caller.client.delete(f"/projects/{deleted}")
    for project_id in (elsewhere, deleted, "no-such-project", await stranger.create_ready_project()):
        response = await caller.client.post(_path(team), json={"key_name": "ci", "project_id": project_id})
        assert (response.status_code, "requested project" in response.json()["message"]) == (404, True)
    member = await stranger.join_organization(team, MemberRole.EDITOR)
    await caller.client.put(f"/projects/{own}/members/{member.id}/role", json={"role": "viewer"})
    body = {"key_name": "ci", "project_id": own}
    assert (await stranger.client.post(_path(team), json=body)).status_code == 403
    assert await _listed(caller, team) == []


async def test_a_revoked_key_stops_at_once_and_leaves_the_list(
    api_app: ApiApp, caller: Caller, team: Organization
) -> None:
    created = await _made(caller, team)
    async with api_app.client(created["key"]) as client:
        assert (await client.get("/auth")).status_code == 200
        revoked = (await caller.client.delete(_path(team, created))).json()
        assert (revoked["id"], revoked["revoked"], revoked["created_by"]) == (created["id"], True, caller.user.id)
        assert revoked["last_used_at"]
        assert (await client.get("/auth")).status_code == 401
    assert await _listed(caller, team) == []
    assert (await caller.client.delete(_path(team, created))).status_code == 404


async def test_keys_of_people_and_of_other_organizations_are_not_among_them(caller: Caller, team: Organization) -> None:
    (own,) = (await caller.client.get("/api_keys")).json()
    other = await caller.create_organization("other")
    foreign = await _made(caller, other)
    for key in (own, foreign):
        assert (await caller.client.delete(_path(team, key))).status_code == 404
    assert await _listed(caller, team) == []


async def test_whoever_is_no_admin_any_more_when_it_is_decided_makes_none(
    api_app: ApiApp, caller: Caller, stranger: Caller, team: Organization
) -> None:
    """The role is removed between authentication and the transaction."""
    member = await stranger.join_organization(team, MemberRole.ADMIN)
    async with api_app.services.store.transaction() as rows:
        await rows.organizations.lock(team.id)
        late = asyncio.create_task(stranger.client.post(_path(team), json={"key_name": "late"}))
        await asyncio.sleep(0.2)
        assert not late.done()
        await rows.members.set_role(member, MemberRole.MEMBER)
    assert (await late).status_code == 403
    assert await _listed(caller, team) == []


@pytest.mark.parametrize("name", ["", "   ", "x" * 65])
async def test_a_name_that_will_not_do_is_refused(caller: Caller, team: Organization, name: str) -> None:
    assert (await caller.client.post(_path(team), json={"key_name": name})).status_code == 400
    assert await _listed(caller, team) == []


async def test_the_store_has_a_digest_and_no_token(api_app: ApiApp, caller: Caller, team: Organization) -> None:
    created = await _made(caller, team)
    async with api_app.platform.store.read() as rows:
        (kept,) = await rows.api_keys.list_in_organization(team.id)
    assert kept.kind is KeyKind.ORGANIZATION
    assert created["key"][22:] not in repr(kept)
