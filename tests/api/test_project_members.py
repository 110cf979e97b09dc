"""Members' access to a project: its level, its source, and who can change it."""

from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from bough import clock
from bough.domain.api_key import KeyKind
from bough.domain.organization import Member, MemberRole, Organization
from bough.domain.rights import ProjectRole
from bough.ids import MemberId
from support.accounts import add_account, add_key
from support.api_app import ApiApp
from support.api_client import Caller, Json


@pytest_asyncio.fixture(loop_scope="session")
async def team(caller: Caller) -> Organization:
    """Creates an organization with the caller as admin."""
    return await caller.create_organization()


@pytest_asyncio.fixture(loop_scope="session")
async def project_id(caller: Caller, team: Organization) -> str:
    return await caller.create_ready_project(org_id=team.id)


def _role(project_id: str, member_id: str) -> str:
    return f"/projects/{project_id}/members/{member_id}/role"


async def _page(caller: Caller, project_id: str, **query: Any) -> Json:
    response = await caller.client.get(f"/projects/{project_id}/members", params=query)
    assert response.status_code == 200, response.text
    page: Json = response.json()
    return page


async def _seen(caller: Caller, project_id: str, member: Member) -> Json:
    found = (await _page(caller, project_id))["project_members"]
    return next(each for each in found if each["member_id"] == member.id)


async def _sets(caller: Caller, project_id: str, member: Member, role: ProjectRole, **query: Any) -> Json:
    response = await caller.client.put(_role(project_id, member.id), json={"role": role}, params=query)
    assert response.status_code == 200, response.text
    changed: Json = response.json()
    return changed


async def _own(caller: Caller, team: Organization) -> Member:
    async with caller.api_app.services.store.read() as rows:
        seen = await rows.members.get_by_user(team.id, caller.user.id)
    assert seen is not None
    return seen.member


STANDINGS = [  # role, project role, shared → default, effective, source
    (MemberRole.ADMIN, None, False, "ADMIN", "ADMIN", "org_admin_override"),
    (MemberRole.ADMIN, ProjectRole.VIEWER, False, "ADMIN", "ADMIN", "org_admin_override"),
    (MemberRole.MEMBER, None, False, "EDITOR", "EDITOR", "org_role_default"),
    (MemberRole.MEMBER, ProjectRole.VIEWER, False, "EDITOR", "VIEWER", "explicit"),
    (MemberRole.MEMBER, ProjectRole.VIEWER, True, "EDITOR", "EDITOR", "explicit"),
    (MemberRole.EDITOR, ProjectRole.ADMIN, False, "EDITOR", "ADMIN", "explicit"),
    (MemberRole.VIEWER, None, False, "VIEWER", "VIEWER", "org_role_default"),
    (MemberRole.VIEWER, ProjectRole.VIEWER, False, "VIEWER", "VIEWER", "explicit"),
    (MemberRole.VIEWER, None, True, "VIEWER", "EDITOR", "explicit"),
    (MemberRole.COLLABORATOR, None, False, None, None, "unassigned"),
    (MemberRole.COLLABORATOR, ProjectRole.EDITOR, False, None, "EDITOR", "explicit"),
    (MemberRole.COLLABORATOR, None, True, None, "EDITOR", "explicit"),
]


@pytest.mark.parametrize(("role", "project_role", "shared", "default", "effective", "source"), STANDINGS)
async def test_what_a_member_may_is_told_with_where_it_comes_from(
    caller: Caller,
    stranger: Caller,
    team: Organization,
    project_id: str,
    role: MemberRole,
    project_role: ProjectRole | None,
    shared: bool,
    default: str | None,
    effective: str | None,
    source: str,
) -> None:
    member = await stranger.join_organization(team, role)
    if shared:
        await caller.client.post(f"/projects/{project_id}/permissions", json={"email": stranger.user.email})
    if project_role:
        await _sets(caller, project_id, member, project_role)
    seen = await _seen(caller, project_id, member)
    assert (seen["user_id"], seen["email"], seen["name"]) == (stranger.user.id, stranger.user.email, "Ada")
    assert seen["org_role"] == role
    assert (seen.get("project_role"), seen.get("explicit_project_permission")) == (
        project_role,
        project_role and project_role.upper(),
    )
    assert seen.get("org_default_project_permission") == default
    assert (seen.get("effective_project_permission"), seen["grant_source"]) == (effective, source)
    allowed = {None: (404, 404), "VIEWER": (200, 403), "EDITOR": (200, 200), "ADMIN": (200, 200)}[effective]
    reads = await stranger.client.get(f"/projects/{project_id}")
    writes = await stranger.client.patch(f"/projects/{project_id}", json={"project": {"name": "new"}})
    assert (reads.status_code, writes.status_code) == allowed


async def test_a_role_counts_at_once_and_until_it_is_taken(
    caller: Caller, stranger: Caller, team: Organization, project_id: str
) -> None:
    member = await stranger.join_organization(team, MemberRole.COLLABORATOR)
    other = await caller.create_ready_project(org_id=team.id)
    changed = await _sets(caller, project_id, member, ProjectRole.VIEWER)
    assert (changed["project_id"], changed["member_id"], changed["email"]) == (
        project_id,
        member.id,
        stranger.user.email,
    )
    assert (changed["project_role"], changed["effective_project_permission"]) == ("viewer", "VIEWER")
    assert (await stranger.client.get(f"/projects/{project_id}")).status_code == 200
    assert (await stranger.client.get(f"/projects/{other}")).status_code == 404
    assert (await _sets(caller, project_id, member, ProjectRole.EDITOR))["project_role"] == "editor"
    removed = (await caller.client.delete(_role(project_id, member.id))).json()
    assert ("project_role" in removed, "effective_project_permission" in removed) == (False, False)
    assert (await stranger.client.get(f"/projects/{project_id}")).status_code == 404
    again = await caller.client.delete(_role(project_id, member.id))
    assert (again.status_code, again.json()["credential_rotation_recommended"]) == (200, False)


@pytest.mark.parametrize(
    ("role", "before", "after", "recommended"),
    [
        (MemberRole.MEMBER, None, ProjectRole.VIEWER, True),
        (MemberRole.COLLABORATOR, ProjectRole.EDITOR, None, True),
        (MemberRole.COLLABORATOR, ProjectRole.VIEWER, None, False),
        (MemberRole.VIEWER, ProjectRole.ADMIN, ProjectRole.EDITOR, False),
        (MemberRole.ADMIN, None, ProjectRole.VIEWER, False),
    ],
)
async def test_new_passwords_are_recommended_when_somebody_knows_them_who_may_not_any_more(
    caller: Caller,
    stranger: Caller,
    team: Organization,
    project_id: str,
    role: MemberRole,
    before: ProjectRole | None,
    after: ProjectRole | None,
    recommended: bool,
) -> None:
    member = await stranger.join_organization(team, role)
    if before:
        await _sets(caller, project_id, member, before)
    if after:
        changed = await _sets(caller, project_id, member, after)
    else:
        changed = (await caller.client.delete(_role(project_id, member.id))).json()
    assert changed["credential_rotation_recommended"] is recommended


async def test_nobody_takes_rights_from_themselves_by_mistake(
    caller: Caller, stranger: Caller, team: Organization, project_id: str
) -> None:
    member = await stranger.join_organization(team, MemberRole.VIEWER)
    await _sets(caller, project_id, member, ProjectRole.ADMIN)
    path, client = _role(project_id, member.id), stranger.client
    for response in (await client.put(path, json={"role": "editor"}), await client.delete(path)):
        assert response.status_code == 422, response.text
        assert "confirm_self_" in response.json()["message"]
    assert (await _seen(caller, project_id, member))["project_role"] == "admin"
    same = await client.put(path, json={"role": "admin"})
    assert same.status_code == 200  # reduces nothing
    lowered = await client.put(path, json={"role": "editor"}, params={"confirm_self_demotion": True})
    assert lowered.json()["effective_project_permission"] == "EDITOR"
    assert (await client.delete(path)).status_code == 403
    await _sets(caller, project_id, member, ProjectRole.ADMIN)
    deleted = await client.delete(path, params={"confirm_self_lockout": True})
    assert (deleted.json()["effective_project_permission"], deleted.json()["credential_rotation_recommended"]) == (
        "VIEWER",
        True,
    )


async def test_an_admin_of_the_organization_loses_nothing_by_a_lower_role(
    caller: Caller, team: Organization, project_id: str
) -> None:
    changed = await _sets(caller, project_id, await _own(caller, team), ProjectRole.VIEWER)
    assert changed["effective_project_permission"] == "ADMIN"


@pytest.mark.parametrize("kind", [KeyKind.ORGANIZATION, KeyKind.PROJECT])
async def test_a_key_of_the_organization_gives_roles_and_one_of_the_project_does_not(
    api_app: ApiApp, caller: Caller, stranger: Caller, kind: KeyKind
) -> None:
    """Keys of a personal organization: a key is not its creator, so no confirmation is needed."""
    project_id = await caller.create_ready_project()
    own = await _own(caller, caller.organization)
    key = await caller.create_key(kind, project_id if kind is KeyKind.PROJECT else None)
    async with api_app.client(key) as client:
        answers = [
            await client.get(f"/projects/{project_id}/members"),
            await client.put(_role(project_id, own.id), json={"role": "viewer"}),
            await client.delete(_role(project_id, own.id)),
        ]
    assert {response.status_code for response in answers} == {200 if kind is KeyKind.ORGANIZATION else 403}


async def test_a_key_takes_rights_from_who_made_it_without_asking_twice(
    api_app: ApiApp, caller: Caller, stranger: Caller, team: Organization, project_id: str
) -> None:
    member = await stranger.join_organization(team, MemberRole.VIEWER)
    await _sets(caller, project_id, member, ProjectRole.ADMIN)
    key = await add_key(api_app.services, stranger.account, KeyKind.ORGANIZATION, org_id=team.id)
    async with api_app.client(key) as client:
        response = await client.delete(_role(project_id, member.id))
    assert (response.status_code, response.json()["effective_project_permission"]) == (200, "VIEWER")


@pytest.mark.parametrize(
    ("role", "sees"),
    [(MemberRole.MEMBER, 200), (MemberRole.EDITOR, 200), (MemberRole.VIEWER, 200), (MemberRole.COLLABORATOR, 404)],
)
async def test_people_inside_see_who_may_and_only_admins_change_it(
    caller: Caller, stranger: Caller, team: Organization, project_id: str, role: MemberRole, sees: int
) -> None:
    member = await stranger.join_organization(team, role)
    assert (await stranger.client.get(f"/projects/{project_id}/members")).status_code == sees
    refused = 404 if sees == 404 else 403
    path = _role(project_id, member.id)
    assert (await stranger.client.put(path, json={"role": "admin"})).status_code == refused
    assert (await stranger.client.delete(path)).status_code == refused


async def test_strangers_learn_nothing(caller: Caller, stranger: Caller, team: Organization, project_id: str) -> None:
    own = await _own(caller, team)
    for project in (project_id, "no-such-project"):
        answers = [
            await stranger.client.get(f"/projects/{project}/members"),
            await stranger.client.put(_role(project, own.id), json={"role": "admin"}),
            await stranger.client.delete(_role(project, own.id)),
        ]
        assert {(each.status_code, "requested project" in each.json()["message"]) for each in answers} == {(404, True)}


async def test_it_takes_a_member_of_the_projects_organization(
    caller: Caller, stranger: Caller, project_id: str
) -> None:
    elsewhere = await _own(stranger, stranger.organization)
    for member_id, status in ((elsewhere.id, 404), (MemberId.new(), 404), ("no-uuid", 400)):
        answers = [
            await caller.client.put(_role(project_id, member_id), json={"role": "viewer"}),
            await caller.client.delete(_role(project_id, member_id)),
        ]
        assert {response.status_code for response in answers} == {status}


@pytest.mark.parametrize("body", [{}, {"role": "owner"}, {"role": None}, {"role": 7}, []])
async def test_a_role_that_is_none(caller: Caller, team: Organization, project_id: str, body: Any) -> None:
    own = await _own(caller, team)
    assert (await caller.client.put(_role(project_id, own.id), json=body)).status_code == 400


async def test_pages_follow_each_other_while_members_come_and_go(
    api_app: ApiApp, caller: Caller, team: Organization, project_id: str
) -> None:
    now, later = clock.now(), [await add_account(api_app.services) for _ in range(4)]
    joined = []
    async with api_app.services.store.transaction() as rows:
        for minute, account in enumerate(later, 1):
            joined.append(
                Member(
                    id=MemberId.new(),
                    org_id=team.id,
                    user_id=account.user.id,
                    role=MemberRole.VIEWER,
                    joined_at=now + timedelta(minutes=minute),
                )
            )
            await rows.members.add(joined[-1])
    own = await _own(caller, team)
    first = await _page(caller, project_id, limit=2)
    assert [each["member_id"] for each in first["project_members"]] == [own.id, joined[0].id]
    async with api_app.services.store.transaction() as rows:
        await rows.members.remove(joined[0])
    second = await _page(caller, project_id, limit=2, cursor=first["pagination"]["next"])
    assert [each["member_id"] for each in second["project_members"]] == [joined[1].id, joined[2].id]
    third = await _page(caller, project_id, limit=2, cursor=second["pagination"]["next"])
    assert ([each["member_id"] for each in third["project_members"]], "pagination" in third) == (
        [joined[3].id],
        False,
    )


@pytest.mark.parametrize(
    "query", [{"limit": each} for each in ("0", "-1", "501", "1.5", "nan", "inf", "many", "1e9")] + [{"cursor": "x"}]
)
async def test_a_page_that_is_none(caller: Caller, project_id: str, query: dict[str, str]) -> None:
    response = await caller.client.get(f"/projects/{project_id}/members", params=query)
    assert response.status_code == 400, response.text
