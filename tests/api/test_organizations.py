"""Organizations: create, get as a member, rename as an admin."""

import json
from typing import Any

import pytest

from bough.control.people.organizations import rename_organization
from bough.domain.api_key import KeyKind
from bough.domain.organization import MemberRole, Organization
from bough.errors import Denied, NotFound
from bough.store.audit import AuditQuery
from support.accounts import add_key
from support.api_app import ApiApp
from support.api_client import Caller, Json, make_stale_context


def _renamed(organization: Organization | Json) -> str:
    org_id = organization.id if isinstance(organization, Organization) else organization["id"]
    return f"/bough/organizations/{org_id}"


async def _made(caller: Caller, name: str = "Orchard") -> Json:
    response = await caller.client.post("/bough/organizations", json={"name": name})
    assert response.status_code == 201, response.text
    made: Json = response.json()
    return made


async def test_whoever_makes_one_is_its_admin_and_lends_it_their_plan(caller: Caller, stranger: Caller) -> None:
    made = await _made(stranger)
    assert (made["name"], made["handle"], made["plan"]) == ("Orchard", made["id"], "free")
    assert (await stranger.client.get(f"/organizations/{made['id']}")).json() == made
    (admin,) = (await stranger.client.get(f"/organizations/{made['id']}/members")).json()["members"]
    assert (admin["member"]["user_id"], admin["member"]["role"]) == (stranger.user.id, "admin")
    assert (await _made(caller))["plan"] == "unlimited"


async def test_it_is_listed_behind_the_personal_one(caller: Caller) -> None:
    made = await _made(caller)
    personal, other = (await caller.client.get("/users/me/organizations")).json()["organizations"]
    assert (personal["id"], other) == (caller.organization.id, made)


async def test_projects_are_created_in_it(caller: Caller) -> None:
    made = await _made(caller)
    created = await caller.create_project(org_id=made["id"])
    assert created["project"]["org_id"] == made["id"]


@pytest.mark.parametrize("role", MemberRole)
async def test_everybody_in_it_sees_it(caller: Caller, stranger: Caller, role: MemberRole) -> None:
    team = await caller.create_organization()
    await stranger.join_organization(team, role)
    assert (await stranger.client.get(f"/organizations/{team.id}")).json()["id"] == team.id


async def test_a_stranger_is_told_the_same_as_of_nothing(caller: Caller, stranger: Caller) -> None:
    team = await caller.create_organization()
    theirs, absent = [await stranger.client.get(f"/organizations/{each}") for each in (team.id, "org-none")]
    assert (theirs.status_code, theirs.json()["message"]) == (404, absent.json()["message"])
    theirs, absent = [
        await stranger.client.patch(f"/bough/organizations/{each}", json={"name": "mine"})
        for each in (team.id, "org-none")
    ]
    assert (theirs.status_code, theirs.json()["message"]) == (404, absent.json()["message"])


async def test_keys_see_their_organization_and_neither_rename_it_nor_make_one(api_app: ApiApp, caller: Caller) -> None:
    team = await caller.create_organization()
    project_id = await caller.create_ready_project(org_id=team.id)
    for kind, only in ((KeyKind.ORGANIZATION, None), (KeyKind.PROJECT, project_id)):
        token = await add_key(api_app.services, caller.account, kind, org_id=team.id, project_id=only)
        async with api_app.client(token) as client:
            assert (await client.get(f"/organizations/{team.id}")).status_code == 200
            assert (await client.get(f"/organizations/{caller.organization.id}")).status_code == 404
            assert (await client.patch(_renamed(team), json={"name": "x"})).status_code == 403
            refused = await client.post("/bough/organizations", json={"name": "x"})
            assert (refused.status_code, "personal API key" in refused.json()["message"]) == (403, True)


@pytest.mark.parametrize("role", MemberRole)
async def test_admins_rename_it(caller: Caller, stranger: Caller, role: MemberRole) -> None:
    team = await caller.create_organization("before")
    await stranger.join_organization(team, role)
    response = await stranger.client.patch(_renamed(team), json={"name": "after"})
    assert response.status_code == (200 if role is MemberRole.ADMIN else 403)
    shown = (await caller.client.get(f"/organizations/{team.id}")).json()
    assert shown["name"] == ("after" if role is MemberRole.ADMIN else "before")
    assert (shown["updated_at"] > shown["created_at"]) is (role is MemberRole.ADMIN)


async def test_a_personal_one_is_renamed_too(caller: Caller) -> None:
    response = await caller.client.patch(_renamed(caller.organization), json={"name": "my own"})
    assert (response.status_code, response.json()["name"]) == (200, "my own")


@pytest.mark.parametrize("name", ["", "   ", "x" * 65, 7, None, "a\0b", "a\r\nBcc: all@example.com", "\x1b[1m", "\x85"])
async def test_a_name_that_will_not_do_is_refused(caller: Caller, name: Any) -> None:
    headers, body = {"Content-Type": "application/json"}, json.dumps({"name": name})
    made = await caller.client.post("/bough/organizations", content=body, headers=headers)
    renamed = await caller.client.patch(_renamed(caller.organization), content=body, headers=headers)
    assert (made.status_code, renamed.status_code) == (400, 400)
    assert len((await caller.client.get("/users/me/organizations")).json()["organizations"]) == 1


@pytest.mark.parametrize("name", ["x" * 64, "Grün & Söhne 🌿", "👩‍👩‍👧", "it's"])
async def test_other_names_will(caller: Caller, name: str) -> None:
    assert (await _made(caller, name))["name"] == name


async def test_a_role_that_was_taken_away_meanwhile_does_not_count(caller: Caller, stranger: Caller) -> None:
    team = await caller.create_organization()
    member = await stranger.join_organization(team, MemberRole.ADMIN)
    context = await make_stale_context(stranger)
    await caller.client.patch(f"/organizations/{team.id}/members/{member.id}", json={"role": "viewer"})
    with pytest.raises(Denied):
        await rename_organization(context, team, "mine")
    await caller.client.delete(f"/organizations/{team.id}/members/{member.id}")
    with pytest.raises(NotFound):
        await rename_organization(context, team, "mine")
    assert (await caller.client.get(f"/organizations/{team.id}")).json()["name"] == team.name


async def test_the_audit_has_its_names(api_app: ApiApp, caller: Caller) -> None:
    made = await _made(caller, "before")
    await caller.client.patch(_renamed(made), json={"name": "after"})
    async with api_app.services.store.read() as rows:
        renamed, created = await rows.audit.page(AuditQuery(org_id=made["id"]), 10, None)
    assert (created.action, created.resource, created.user_id) == ("create_organization", "before", caller.user.id)
    assert (renamed.action, renamed.resource, renamed.details) == (
        "update_organization",
        "after",
        {"former_name": "before"},
    )
