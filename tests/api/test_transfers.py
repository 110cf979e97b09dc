"""Transfers of projects: all or nothing, within the limits of the new organization, and what they remove."""

import asyncio
import io
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from bough import clock
from bough.config import DEFAULT_PLANS, Plan
from bough.domain.api_key import KeyKind
from bough.domain.audit import AuditEntry
from bough.domain.organization import MemberRole, Organization
from bough.domain.project_transfer import MAX_TTL_SECONDS
from bough.domain.rights import ProjectRole
from bough.ids import ProjectId
from bough.store.audit import AuditQuery
from support.accounts import add_account, add_organization
from support.api_app import ApiApp
from support.api_client import Caller, Json
from support.stores import make_project

FROM_USER = "/users/me/projects/transfer"
ANY_UUID = "00000000-0000-4000-8000-000000000000"


def _from(organization: Organization) -> str:
    return f"/organizations/{organization.id}/projects/transfer"


async def _gives(
    caller: Caller, source: Organization, destination: Organization | str, *project_ids: str
) -> httpx2.Response:
    org_id = destination if isinstance(destination, str) else destination.id
    body = {"destination_org_id": org_id, "project_ids": project_ids}
    return await caller.client.post(_from(source), json=body)


async def _offered(caller: Caller, project_id: str, **body: Any) -> str:
    """Returns the path with which the transfer request can be accepted."""
    place = f"/projects/{project_id}/transfer_requests"
    response = await caller.client.post(place, json=body or None)
    assert response.status_code == 201, response.text
    return f"{place}/{response.json()['id']}"


async def _listed(caller: Caller, organization: Organization) -> list[str]:
    return await caller.list_project_names(org_id=organization.id)


async def _lines(app: ApiApp, **requested: Any) -> list[AuditEntry]:
    async with app.services.store.read() as rows:
        return await rows.audit.page(AuditQuery(**requested), 1000, None)


def _small(app: ApiApp, caller: Caller, **limits: int) -> Caller:
    """The same caller on a platform whose plan `free` has these limits."""
    plans = {**{name: plan.model_dump() for name, plan in DEFAULT_PLANS.items()}, "free": Plan(**limits).model_dump()}
    small = ApiApp(app.platform, plans=plans)
    return replace(caller, api_app=small, client=small.client(caller.token))


@pytest_asyncio.fixture(loop_scope="session")
async def team(caller: Caller) -> Organization:
    """Creates an organization with the caller as admin."""
    return await caller.create_organization()


async def test_projects_go_from_one_organization_to_another(
    api_app: ApiApp, caller: Caller, team: Organization
) -> None:
    one, two = (
        await caller.create_ready_project(org_id=team.id, name="one"),
        await caller.create_ready_project(org_id=team.id, name="two"),
    )
    stays = await caller.create_ready_project(org_id=team.id, name="stays")
    other = await caller.create_organization("other")
    before = await caller.get_project(one)
    response = await _gives(caller, team, other, one, two, one)
    assert (response.status_code, response.json()) == (200, {})
    assert await _listed(caller, team) == ["stays"]
    assert await _listed(caller, other) == ["two", "one"]
    after = await caller.get_project(one)
    assert (before["org_id"], after["org_id"]) == (team.id, other.id)
    assert after["updated_at"] > before["updated_at"]
    assert {name for name in after if after[name] != before[name]} == {"org_id", "owner_id", "owner", "updated_at"}
    for organization in (team, other):
        entries = await _lines(api_app, org_id=organization.id, action="transfer_projects_from_org_to_org")
        assert sorted(line.project_id or "" for line in entries) == sorted([one, two])
        assert {line.user_id for line in entries} == {caller.user.id}
        assert entries[0].details == {"source_org_id": team.id, "destination_org_id": other.id}
    assert not await _lines(api_app, project_id=ProjectId(stays), action="transfer_projects_from_org_to_org")


async def test_projects_go_out_of_the_personal_organization(caller: Caller, team: Organization) -> None:
    project_id = await caller.create_ready_project(name="mine")
    body = {"destination_org_id": team.id, "project_ids": [project_id]}
    response = await caller.client.post(FROM_USER, json=body)
    assert (response.status_code, response.json()) == (200, {})
    assert await _listed(caller, team) == ["mine"]
    assert await _listed(caller, caller.organization) == []
    assert (await caller.client.post(FROM_USER, json=body)).status_code == 404


async def test_what_people_and_keys_had_by_the_old_organization_ends(
    api_app: ApiApp, caller: Caller, stranger: Caller, team: Organization
) -> None:
    project_id = await caller.create_ready_project(org_id=team.id)
    one = f"/projects/{project_id}"
    keys = f"/organizations/{team.id}/api_keys"
    whole = (await caller.client.post(keys, json={"key_name": "all"})).json()["key"]
    single = (await caller.client.post(keys, json={"key_name": "one", "project_id": project_id})).json()["key"]
    invitee, colleague = await add_account(api_app.services), stranger
    await caller.client.post(f"{one}/permissions", json={"email": invitee.user.email})
    member = await colleague.join_organization(team, MemberRole.COLLABORATOR)
    await caller.client.put(f"{one}/members/{member.id}/role", json={"role": ProjectRole.ADMIN})
    offered = await _offered(caller, project_id)
    other = await caller.create_organization("other")
    async with api_app.client(whole) as by_organization, api_app.client(single) as by_project:
        for client in (by_organization, by_project, colleague.client):
            assert (await client.get(one)).status_code == 200
        assert (await _gives(caller, team, other, project_id)).status_code == 200
        assert (await by_organization.get(one)).status_code == 404
        assert (await by_project.get(one)).status_code == 401
        assert (await colleague.client.get(one)).status_code == 404
    assert (await caller.client.get(f"{one}/permissions")).json() == {"project_permissions": []}
    assert [key["name"] for key in (await caller.client.get(keys)).json()] == ["all"]
    assert (await colleague.client.put(offered)).status_code == 404
    await colleague.join_organization(other, MemberRole.COLLABORATOR)
    assert (await colleague.client.get(one)).status_code == 404  # the former role is not restored
    async with api_app.services.store.read() as rows:
        project = await rows.projects.get(ProjectId(project_id))
    assert project
    assert project.created_by == caller.user.id


@pytest.mark.parametrize("wrong", ["elsewhere", "gone", "no-such-project"])
async def test_one_project_that_is_not_there_keeps_all_where_they_are(
    api_app: ApiApp, caller: Caller, team: Organization, wrong: str
) -> None:
    good, gone = (
        await caller.create_ready_project(org_id=team.id, name="good"),
        await caller.create_ready_project(org_id=team.id),
    )
    await caller.client.delete(f"/projects/{gone}")
    ids = {"elsewhere": await caller.create_ready_project(), "gone": gone}
    response = await _gives(caller, team, caller.organization, good, ids.get(wrong, wrong))
    assert (response.status_code, "requested project" in response.json()["message"]) == (404, True)
    assert await _listed(caller, team) == ["good"]
    assert not await _lines(api_app, project_id=ProjectId(good), action="transfer_projects_from_org_to_org")


async def test_a_strangers_project_is_not_there_even_while_it_is_at_work(
    caller: Caller, stranger: Caller, team: Organization
) -> None:
    busy = (await stranger.create_project())["project"]["id"]
    response = await _gives(caller, team, caller.organization, busy)
    absent = await _gives(caller, team, caller.organization, "no-such-project")
    assert (response.status_code, response.json()["message"]) == (404, absent.json()["message"])


async def test_a_project_at_work_is_waited_for_and_all_stay(caller: Caller, team: Organization) -> None:
    rests = await caller.create_ready_project(org_id=team.id, name="rests")
    works = (await caller.create_project(org_id=team.id, name="works"))["project"]["id"]
    assert (await _gives(caller, team, caller.organization, rests, works)).status_code == 423
    assert await _listed(caller, team) == ["works", "rests"]
    await caller.finish_operations(works)
    assert (await _gives(caller, team, caller.organization, rests, works)).status_code == 200


@pytest.mark.parametrize("role", list(MemberRole))
async def test_only_admins_give_projects_away_and_it_takes_the_right_to_create_some_there(
    caller: Caller, stranger: Caller, team: Organization, role: MemberRole
) -> None:
    theirs, mine = await caller.create_ready_project(org_id=team.id), await stranger.create_ready_project()
    assert (await _gives(stranger, team, stranger.organization, theirs)).status_code == 404
    assert (await _gives(stranger, stranger.organization, team, mine)).status_code == 404
    await stranger.join_organization(team, role)
    away = await _gives(stranger, team, stranger.organization, theirs)
    assert away.status_code == (200 if role is MemberRole.ADMIN else 403)
    into = await _gives(stranger, stranger.organization, team, mine)
    assert into.status_code == (200 if role in (MemberRole.ADMIN, MemberRole.MEMBER) else 403)


@pytest.mark.parametrize("kind", [KeyKind.ORGANIZATION, KeyKind.PROJECT])
@pytest.mark.parametrize("path", ["own", FROM_USER])
async def test_it_takes_a_person(api_app: ApiApp, caller: Caller, team: Organization, kind: KeyKind, path: str) -> None:
    project_id = await caller.create_ready_project()
    key = await caller.create_key(kind, project_id if kind is KeyKind.PROJECT else None)
    body = {"destination_org_id": team.id, "project_ids": [project_id]}
    async with api_app.client(key) as client:
        response = await client.post(_from(caller.organization) if path == "own" else path, json=body)
    assert response.status_code == 403, response.text
    assert (await caller.get_project(project_id))["org_id"] == caller.organization.id


@pytest.mark.parametrize(
    "change",
    [
        {"project_ids": []},
        {"project_ids": ["no-such-project"] * 401},
        {"project_ids": ["No such id"]},
        {"project_ids": None},
        {"project_ids": "no-such-project"},
        {"destination_org_id": None},
        {"destination_org_id": ""},
    ],
)
async def test_a_body_that_will_not_do(caller: Caller, team: Organization, change: Json) -> None:
    body = {"destination_org_id": caller.organization.id, "project_ids": ["no-such-project"], **change}
    for path in (_from(team), FROM_USER):
        assert (await caller.client.post(path, json=body)).status_code == 400


async def test_it_takes_another_organization(caller: Caller, team: Organization) -> None:
    project_id = await caller.create_ready_project(org_id=team.id)
    response = await _gives(caller, team, team, project_id)
    assert (response.status_code, "already owns" in response.json()["message"]) == (400, True)


async def test_four_hundred_go_at_once(api_app: ApiApp, caller: Caller, team: Organization) -> None:
    projects = [make_project(minute, org_id=team.id, created_by=caller.user.id) for minute in range(400)]
    async with api_app.services.store.transaction() as rows:
        for project in projects:
            await rows.projects.add(project)
    response = await _gives(caller, team, caller.organization, *(project.id for project in projects))
    assert response.status_code == 200, response.text
    async with api_app.services.store.read() as rows:
        assert await rows.projects.count_in_organization(team.id) == 0
        assert await rows.projects.count_in_organization(caller.organization.id) == 400
    assert len(await _lines(api_app, org_id=team.id, action="transfer_projects_from_org_to_org")) == 400


async def test_a_plan_without_room_refuses_all_and_names_each_limit(
    api_app: ApiApp, caller: Caller, team: Organization
) -> None:
    one = await caller.create_ready_project(org_id=team.id, history_retention_seconds=3600)
    two = await caller.create_ready_project(org_id=team.id, history_retention_seconds=7200)
    made = await caller.client.post(f"/projects/{two}/branches", json={})
    assert made.status_code == 201
    await caller.finish_operations(two)
    narrow = await add_organization(api_app.services, caller.account, plan="free")
    small = _small(api_app, caller, projects=1, branches=1, history_seconds=3600)
    async with small.client:
        refused = await _gives(small, team, narrow, one, two)
        assert refused.status_code == 406, refused.text
        body = refused.json()
        assert body["limits"] == [
            {"name": "projects", "expected": "1", "actual": "2"},
            {"name": "branches_per_project", "expected": "1", "actual": "2"},
            {"name": "history_retention_seconds", "expected": "3600", "actual": "7200"},
        ]
        assert (body["code"], body["request_id"]) == ("PROJECTS_LIMIT_EXCEEDED", refused.headers["x-request-id"])
        assert "nothing was moved" in body["message"]
        assert len(await _listed(caller, team)) == 2
        assert (await _gives(small, team, narrow, one)).status_code == 200


async def test_of_a_transfer_and_a_new_project_one_gets_the_last_place(
    api_app: ApiApp, caller: Caller, team: Organization
) -> None:
    project_id = await caller.create_ready_project(org_id=team.id)
    narrow = await add_organization(api_app.services, caller.account, plan="free")
    small = _small(api_app, caller, projects=1)
    async with small.client:
        moved, made = await asyncio.gather(
            _gives(small, team, narrow, project_id),
            small.client.post("/projects", json={"project": {"org_id": narrow.id}}),
        )
    assert (moved.status_code, made.status_code) in {(200, 422), (406, 201)}
    assert len(await _listed(caller, narrow)) == 1


async def test_whoever_is_told_of_an_offer_takes_the_project_over_once(
    api_app: ApiApp, caller: Caller, stranger: Caller, log_output: io.StringIO
) -> None:
    project_id = await caller.create_ready_project(name="offered")
    response = await caller.client.post(f"/projects/{project_id}/transfer_requests")
    made = response.json()
    assert (response.status_code, made["project_id"]) == (201, project_id)
    assert (await stranger.client.get(f"/projects/{project_id}")).status_code == 404
    path = f"/projects/{project_id}/transfer_requests/{made['id']}"
    accepted = await stranger.client.put(path)
    assert (accepted.status_code, accepted.content) == (204, b"")
    assert (await stranger.get_project(project_id))["org_id"] == stranger.organization.id
    assert (await caller.client.get(f"/projects/{project_id}")).status_code == 404
    assert (await stranger.client.put(path)).status_code == 404
    for organization in (caller.organization, stranger.organization):
        (line,) = await _lines(api_app, org_id=organization.id, action="accept_project_transfer_request")
        assert (line.project_id, line.user_id, line.resource) == (project_id, stranger.user.id, "offered")
    everything = repr(await _lines(api_app, project_id=ProjectId(project_id)))
    assert made["id"] not in everything
    assert made["id"] not in log_output.getvalue()
    assert f"/projects/{project_id}/transfer_requests/" in log_output.getvalue()


async def test_an_offer_lives_for_a_day_or_as_long_as_it_says(caller: Caller) -> None:
    path = f"/projects/{await caller.create_ready_project()}/transfer_requests"
    for body, seconds in ((None, 86_400), ({}, 86_400), ({"ttl_seconds": 60}, 60)):
        made = (await caller.client.post(path, json=body)).json()
        created, expires = (datetime.fromisoformat(made[name]) for name in ("created_at", "expires_at"))
        assert expires - created == timedelta(seconds=seconds)


@pytest.mark.parametrize("seconds", [0, -1, MAX_TTL_SECONDS + 1, 2**63, 1.5, "60", True])
async def test_an_offer_of_a_time_that_is_none(caller: Caller, seconds: Any) -> None:
    project_id = await caller.create_ready_project()
    response = await caller.client.post(f"/projects/{project_id}/transfer_requests", json={"ttl_seconds": seconds})
    assert response.status_code == 400, response.text


async def test_the_store_knows_an_offer_by_its_digest_only(api_app: ApiApp, caller: Caller) -> None:
    path = await _offered(caller, await caller.create_ready_project())
    secret = path.rsplit("/", 1)[1]
    async with api_app.services.store.read() as rows:
        kept = await rows.transfer_requests.get(api_app.services.keys.digest(secret), clock.now())
    assert kept
    assert secret not in repr(kept)


async def test_an_offer_that_does_not_stand_is_always_the_same_not_found(
    caller: Caller, stranger: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    project_id, other, gone = (
        await caller.create_ready_project(),
        await caller.create_ready_project(),
        await caller.create_ready_project(),
    )
    path, deleted = await _offered(caller, project_id), await _offered(caller, gone)
    await caller.client.delete(f"/projects/{gone}")
    paths = [
        f"/projects/{project_id}/transfer_requests/{ANY_UUID}",
        f"/projects/{project_id}/transfer_requests/x",
        path.replace(project_id, other),
        path.replace(project_id, "no-such-project"),
        deleted,
    ]
    answers = [await stranger.client.put(each) for each in paths]
    later = clock.now() + timedelta(seconds=86_401)
    with monkeypatch.context() as tomorrow:
        tomorrow.setattr(clock, "now", lambda: later)
        answers.append(await stranger.client.put(path))
    assert {(each.status_code, each.json()["message"], each.json()["code"]) for each in answers} == {
        (404, answers[0].json()["message"], "")
    }
    assert "requested transfer request" in answers[0].json()["message"]
    assert (await stranger.client.put(path)).status_code == 204


async def test_of_two_who_accept_at_once_one_gets_it(caller: Caller, stranger: Caller, team: Organization) -> None:
    path = await _offered(caller, await caller.create_ready_project(org_id=team.id, name="one"))
    answers = await asyncio.gather(stranger.client.put(path), caller.client.put(path))
    assert sorted(response.status_code for response in answers) == [204, 404]
    owned = [*await _listed(caller, caller.organization), *await _listed(stranger, stranger.organization)]
    assert owned == ["one"]


async def test_an_offer_is_taken_into_the_organization_that_is_named(
    caller: Caller, stranger: Caller, team: Organization
) -> None:
    path = await _offered(caller, await caller.create_ready_project(name="one"))
    body = {"org_id": team.id}
    assert (await stranger.client.put(path, json=body)).status_code == 404
    await stranger.join_organization(team, MemberRole.EDITOR)
    assert (await stranger.client.put(path, json=body)).status_code == 403
    assert (await caller.client.put(path, json={"org_id": "not an id"})).status_code == 400
    assert (await caller.client.put(path)).status_code == 409
    assert (await caller.client.put(path, json=body)).status_code == 204
    assert await _listed(caller, team) == ["one"]


async def test_a_key_of_an_organization_takes_over_and_one_of_a_project_does_not(
    api_app: ApiApp, caller: Caller, stranger: Caller
) -> None:
    path = await _offered(caller, await caller.create_ready_project(name="one"))
    own = await stranger.create_ready_project(name="own")
    async with api_app.client(await stranger.create_key(KeyKind.PROJECT, own)) as client:
        for body in (None, {"org_id": caller.organization.id}):
            assert (await client.put(path, json=body)).status_code == 403
    async with api_app.client(await stranger.create_key(KeyKind.ORGANIZATION)) as client:
        assert (await client.put(path)).status_code == 204
    assert sorted(await _listed(stranger, stranger.organization)) == ["one", "own"]


async def test_an_offer_into_a_plan_without_room_is_refused_with_reasons_and_stands(
    api_app: ApiApp, caller: Caller, stranger: Caller
) -> None:
    path = await _offered(caller, await caller.create_ready_project())
    small = _small(api_app, stranger, projects=0, history_seconds=0)
    async with small.client:
        refused = await small.client.put(path)
    assert refused.status_code == 406, refused.text
    body = refused.json()
    assert [reason["code"] for reason in body["reasons"]] == [
        "PROJECTS_LIMIT_EXCEEDED",
        "HISTORY_RETENTION_LIMIT_EXCEEDED",
    ]
    assert all(reason["message"].endswith("allows 0.") for reason in body["reasons"])
    assert (body["code"], "limits" in body) == ("PROJECTS_LIMIT_EXCEEDED", False)
    assert (await stranger.client.put(path)).status_code == 204


async def test_only_admins_of_the_organization_offer_its_projects(
    caller: Caller, stranger: Caller, team: Organization
) -> None:
    project_id = await caller.create_ready_project(org_id=team.id)
    place = f"/projects/{project_id}/transfer_requests"
    assert (await stranger.client.post(place)).status_code == 404
    member = await stranger.join_organization(team, MemberRole.MEMBER)
    await caller.client.put(f"/projects/{project_id}/members/{member.id}/role", json={"role": "admin"})
    assert (await stranger.client.post(place)).status_code == 403
    async with caller.api_app.services.store.transaction() as rows:
        await rows.members.set_role(member, MemberRole.ADMIN)
    assert (await stranger.client.post(place)).status_code == 201


async def test_an_offer_of_who_is_no_admin_any_more_stands(
    caller: Caller, stranger: Caller, team: Organization
) -> None:
    member = await stranger.join_organization(team, MemberRole.ADMIN)
    path = await _offered(stranger, await caller.create_ready_project(org_id=team.id, name="one"))
    async with caller.api_app.services.store.transaction() as rows:
        await rows.members.set_role(member, MemberRole.VIEWER)
    assert (await stranger.client.put(path)).status_code == 204
    assert await _listed(stranger, stranger.organization) == ["one"]
