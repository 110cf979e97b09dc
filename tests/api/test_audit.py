"""The audit log: who can read which entries, filters, and that it contains only what happened.

tests/compat/test_every_route.py checks that every route that changes something writes one entry.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest

from bough import clock
from bough.domain.api_key import KeyKind
from bough.domain.organization import MemberRole, Organization
from bough.domain.rights import ProjectRole
from bough.ids import OrganizationId, ProjectId
from support.accounts import add_key
from support.api_app import ApiApp
from support.api_client import Caller, Json, create_caller

NEVER = "00000000-0000-4000-8000-0000000000ff"


async def read(client: httpx2.AsyncClient, **query: Any) -> list[Json]:
    response = await client.get("/bough/audit", params=query)
    assert response.status_code == 200, response.text
    found: list[Json] = response.json()["audit"]
    return found


async def actions(client: httpx2.AsyncClient, **query: Any) -> list[str]:
    return [line["action"] for line in await read(client, **query)]


async def status(client: httpx2.AsyncClient, **query: Any) -> int:
    return (await client.get("/bough/audit", params=query)).status_code


async def moves(app: ApiApp, project_id: str, to: Organization) -> None:
    """Creates rows without audit entries."""
    async with app.services.store.transaction() as rows:
        project = await rows.projects.get(ProjectId(project_id))
        assert project is not None
        await rows.projects.save(replace(project, org_id=to.id))


async def test_a_line_says_who_did_what_when_and_from_where(api_app: ApiApp, caller: Caller) -> None:
    began = clock.now()
    async with api_app.client(caller.token, address="192.0.2.7") as client:
        headers = {"X-Request-Id": f"mine-{caller.user.id}"}
        created = await client.post("/projects", json={"project": {"name": "first"}}, headers=headers)
    (own,) = (await caller.client.get("/api_keys")).json()
    (line,) = await read(caller.client)
    assert began <= datetime.fromisoformat(line.pop("at")) <= clock.now()
    assert line.pop("id") > 0
    details = line.pop("details")
    assert "password" not in str(details)
    thing = line.pop("thing")
    assert isinstance(thing, str)
    assert line == {
        "actor": {"kind": "personal_key", "name": caller.user.email, "user_id": caller.user.id, "key_id": own["id"]},
        "address": "192.0.2.7",
        "request_id": f"mine-{caller.user.id}",
        "action": "create_project",
        "org_id": caller.organization.id,
        "project_id": created.json()["project"]["id"],
    }


async def test_what_was_refused_or_asked_again_is_not_in_it(caller: Caller, stranger: Caller) -> None:
    project_id = await caller.create_ready_project()
    for method, path, body in (
        ("POST", "/projects", {"project": {"name": 7}}),
        ("POST", "/projects", {"project": {"region_id": "aws-nowhere"}}),
        ("PATCH", f"/projects/{NEVER}", {"project": {"name": "x"}}),
        ("DELETE", "/api_keys/0", None),
        ("GET", f"/projects/{project_id}", None),
    ):
        response = await caller.client.request(method, path, json=body)
        assert response.status_code >= 400 or method == "GET"
    assert (await stranger.client.delete(f"/projects/{project_id}")).status_code == 404
    assert await actions(caller.client) == ["create_project"]
    assert await read(stranger.client) == []
    for _ in range(2):
        once = {"Idempotency-Key": "once"}
        assert (await caller.client.post("/api_keys", json={"key_name": "k"}, headers=once)).status_code == 200
    assert await actions(caller.client) == ["create_api_key", "create_project"]


async def test_what_was_gone_already_is_not_in_it(caller: Caller) -> None:
    created = await caller.create_project()
    project_id = created["project"]["id"]
    await caller.finish_operations(project_id)
    branch = f"/projects/{project_id}/branches/{created['branch']['id']}"
    for path in (f"{branch}/roles/nobody", f"{branch}/databases/nothing"):
        assert (await caller.client.delete(path)).status_code == 204
    assert await actions(caller.client) == ["create_project"]


async def test_the_audit_of_an_organization_is_for_its_admins(
    api_app: ApiApp, caller: Caller, stranger: Caller
) -> None:
    team = await caller.create_organization()
    await caller.create_ready_project(org_id=team.id)
    await caller.create_ready_project()
    assert await actions(caller.client, org_id=team.id) == ["create_project"]
    theirs = await stranger.client.get("/bough/audit", params={"org_id": team.id})
    absent = await stranger.client.get("/bough/audit", params={"org_id": "org-none"})
    assert (theirs.status_code, theirs.json()["message"]) == (404, absent.json()["message"])
    await stranger.join_organization(team, MemberRole.MEMBER)
    assert await status(stranger.client, org_id=team.id) == 403
    async with api_app.client(
        await add_key(api_app.services, caller.account, KeyKind.ORGANIZATION, org_id=team.id)
    ) as key:
        assert await actions(key, org_id=team.id) == await actions(key) == ["create_project"]
        assert await status(key, org_id=caller.organization.id) == 404
    async with api_app.client(api_app.platform.key) as operator:
        assert await actions(operator, org_id=team.id) == ["create_project"]


async def test_the_audit_of_a_project_is_for_those_who_may_share_it(api_app: ApiApp, caller: Caller) -> None:
    team, member = await caller.create_organization(), await create_caller(api_app)
    project_id = await caller.create_ready_project(org_id=team.id)
    assert await actions(caller.client, project_id=project_id) == ["create_project"]
    assert await status(member.client, project_id=project_id) == 404
    await member.join_organization(team, MemberRole.MEMBER)
    assert await status(member.client, project_id=project_id) == 403
    async with api_app.services.store.transaction() as rows:
        await rows.grants.set_role(ProjectId(project_id), member.user.id, ProjectRole.ADMIN)
    assert await actions(member.client, project_id=project_id) == ["create_project"]
    assert await status(member.client, org_id=team.id, project_id=project_id) == 403, "an organization is asked for"
    async with api_app.client(await caller.create_key(KeyKind.PROJECT, project_id)) as key:
        assert [await status(key, **requested) for requested in ({"project_id": project_id}, {})] == [403, 403]
    await member.client.aclose()


async def test_a_project_takes_none_of_its_lines_along(api_app: ApiApp, caller: Caller, stranger: Caller) -> None:
    project_id = await caller.create_ready_project()
    await moves(api_app, project_id, stranger.organization)
    assert (await stranger.client.patch(f"/projects/{project_id}", json={"project": {"name": "x"}})).status_code == 200
    assert await actions(stranger.client, project_id=project_id) == ["update_project"]
    assert await status(caller.client, project_id=project_id) == 404
    left = {"org_id": caller.organization.id, "project_id": project_id}
    assert await actions(caller.client, **left) == ["create_project"], "what was done there is theirs to read"
    await stranger.finish_operations(project_id)
    assert (await stranger.client.delete(f"/projects/{project_id}")).status_code == 200
    assert await status(stranger.client, project_id=project_id) == 404
    async with api_app.client(api_app.platform.key) as operator:
        assert await actions(operator, project_id=project_id) == ["delete_project", "update_project", "create_project"]


async def test_without_a_place_one_reads_what_one_did_oneself(
    api_app: ApiApp, caller: Caller, stranger: Caller
) -> None:
    team = await caller.create_organization()
    await stranger.join_organization(team, MemberRole.ADMIN)
    await caller.create_ready_project(org_id=team.id)
    await stranger.create_ready_project(org_id=team.id)
    assert [line["actor"]["user_id"] for line in await read(caller.client)] == [caller.user.id]
    assert await read(caller.client, user_id=stranger.user.id) == []
    assert len(await read(caller.client, org_id=team.id)) == 2
    async with api_app.client(
        await add_key(api_app.services, caller.account, KeyKind.ORGANIZATION, org_id=team.id)
    ) as key:
        assert (await key.post("/projects", json={"project": {"name": "by a key"}})).status_code == 201
        assert len(await read(key)) == 3
    assert len(await read(caller.client)) == 1, "a key outlives the membership of whoever made it"
    assert {line["actor"]["kind"] for line in await read(caller.client, org_id=team.id, user_id=caller.user.id)} == {
        "personal_key",
        "organization_key",
    }
    async with api_app.client(api_app.platform.key) as operator:
        everything = {line["id"] for line in await read(operator, limit=500)}
        assert {line["id"] for line in await read(caller.client, org_id=team.id)} <= everything
        assert len(await read(operator, user_id=stranger.user.id)) == 1


async def test_lines_are_chosen_by_action_and_time(caller: Caller) -> None:
    await caller.create_ready_project()
    first = (await read(caller.client))[0]["at"]
    await caller.client.post("/api_keys", json={"key_name": "k"})
    second = (await read(caller.client))[0]["at"]
    assert await actions(caller.client, action="create_project") == ["create_project"]
    assert await actions(caller.client, action="no such") == []
    assert await actions(caller.client, since=second) == ["create_api_key"]
    assert await actions(caller.client, until=second) == ["create_project"]
    assert await actions(caller.client, since=first, until=second) == ["create_project"]
    elsewhere = (datetime.fromisoformat(second) - timedelta(hours=1)).isoformat().replace("+00:00", "-01:00")
    assert await actions(caller.client, since=elsewhere) == ["create_api_key"], "zones count"


async def test_pages_are_whole_and_new_lines_do_not_move_them(caller: Caller) -> None:
    for number in range(5):
        await caller.client.post("/api_keys", json={"key_name": str(number)})
    found: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        response = (await caller.client.get("/bough/audit", params=query)).json()
        found += [line["thing"] for line in response["audit"]]
        if "pagination" not in response:
            break
        query["cursor"] = response["pagination"]["cursor"]
        await caller.client.post("/api_keys", json={"key_name": "new"})
    assert found == ["4", "3", "2", "1", "0"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", "0"),
        ("limit", "501"),
        ("limit", "many"),
        ("since", "yesterday"),
        ("since", "1700000000"),
        ("since", "2026-01-31T12:00:00"),
        ("until", "0001-01-01T00:00:00+14:00"),
        ("until", "2026-13-01T00:00:00Z"),
        ("org_id", "UPPER"),
        ("project_id", "a b"),
        ("user_id", "ada@example.com"),
        ("action", "x" * 101),
        ("action", "a\0b"),
        ("cursor", "next"),
        ("cursor", "-1"),
        ("cursor", "9223372036854775808"),
        ("cursor", "9" * 5000),
        ("cursor", "²"),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(api_app: ApiApp, name: str, value: str) -> None:
    async with api_app.client(api_app.platform.key) as operator:
        response = await operator.get("/bough/audit", params={name: value})
    assert response.status_code == 400, response.text
    assert response.json()["message"]


async def test_an_operators_key_of_an_organization_is_not_the_operator(api_app: ApiApp, caller: Caller) -> None:
    async with api_app.client(api_app.platform.key) as operator:
        (home,) = (await operator.get("/users/me/organizations")).json()["organizations"]
        me = (await operator.get("/users/me")).json()["id"]
    account = replace(caller.account, user=replace(caller.user, id=me))
    org_id = OrganizationId(home["id"])
    async with api_app.client(await add_key(api_app.services, account, KeyKind.ORGANIZATION, org_id=org_id)) as key:
        assert await status(key, org_id=caller.organization.id) == 404
        assert {line["org_id"] for line in await read(key)} <= {org_id}
        assert (await key.get("/bough/users")).status_code == 403
