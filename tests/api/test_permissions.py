"""Permissions: sharing a project with an e-mail address and revoking it."""

import asyncio
from typing import Any

import pytest

from bough import clock
from bough.control.platform import mail
from bough.domain.api_key import KeyKind
from bough.domain.organization import MemberRole
from bough.domain.rights import ProjectRole
from support.api_app import ApiApp
from support.api_client import Caller, Json, create_caller

WHO_ARE_THEY = "nobody-has-this@example.com"


def _path(project_id: str, permission: Json | None = None) -> str:
    return f"/projects/{project_id}/permissions" + ("" if permission is None else f"/{permission['id']}")


async def _shared(caller: Caller, project_id: str, email: str) -> Json:
    response = await caller.client.post(_path(project_id), json={"email": email})
    assert response.status_code == 200, response.text
    granted: Json = response.json()
    return granted


async def _listed(caller: Caller, project_id: str) -> list[Json]:
    response = await caller.client.get(_path(project_id))
    assert response.status_code == 200, response.text
    found: list[Json] = response.json()["project_permissions"]
    return found


async def _list_mails(app: ApiApp, email: str) -> list[tuple[str, str]]:
    """Returns subject and text of the mails to the address."""
    async with app.services.store.read() as rows:
        waiting = await rows.mail_messages.list_due(clock.now(), 10_000)
    return [(each.subject, mail.open_text(app.services.vault, each)) for each in waiting if each.recipient == email]


async def test_whoever_has_the_address_reads_and_changes_the_project_until_it_is_revoked(
    caller: Caller, stranger: Caller
) -> None:
    project_id = await caller.create_ready_project(name="orchard")
    one = f"/projects/{project_id}"
    assert (await stranger.client.get(one)).status_code == 404
    granted = await _shared(caller, project_id, stranger.user.email)
    assert (granted["granted_to_email"], "revoked_at" in granted) == (stranger.user.email, False)
    assert await _listed(caller, project_id) == [granted]
    assert (await stranger.client.patch(one, json={"project": {"name": "grove"}})).status_code == 200
    shared = (await stranger.client.get("/projects/shared")).json()["projects"]
    assert [each["id"] for each in shared] == [project_id]
    for method, path in (("DELETE", one), ("GET", _path(project_id)), ("POST", f"{one}/transfer_requests")):
        assert (await stranger.client.request(method, path)).status_code == 403
    revoked = (await caller.client.delete(_path(project_id, granted))).json()
    assert {**revoked, "revoked_at": None} == {**granted, "revoked_at": None}
    assert revoked["revoked_at"] >= granted["granted_at"]
    assert await _listed(caller, project_id) == []
    assert (await stranger.client.get(one)).status_code == 404
    assert (await caller.client.delete(_path(project_id, granted))).status_code == 404


async def test_the_address_gets_one_mail_and_the_same_answer_whether_or_not_it_has_an_account(
    api_app: ApiApp, caller: Caller, stranger: Caller
) -> None:
    project_id = await caller.create_ready_project(name="orchard\u2028Bcc: everybody@example.com")
    answers, mails = [], []
    for email in (stranger.user.email, WHO_ARE_THEY):
        granted = await _shared(caller, project_id, email)
        again = await _shared(caller, project_id, f" {email.upper()} ")
        assert again == granted
        ((subject, text),) = await _list_mails(api_app, email)
        answers.append(sorted(granted))
        mails.append((subject, text.replace(email, "")))
        assert mail.page_url(api_app.settings, "/account") in text
        assert caller.user.email in text
    assert answers[0] == answers[1]
    assert mails[0] == mails[1]
    assert mails[0][0] == "The project orchard Bcc: everybody@example.com is shared with you"


async def test_what_was_revoked_can_be_granted_anew(api_app: ApiApp, caller: Caller, stranger: Caller) -> None:
    project_id = await caller.create_ready_project()
    first = await _shared(caller, project_id, stranger.user.email)
    await caller.client.delete(_path(project_id, first))
    second = await _shared(caller, project_id, stranger.user.email)
    assert second["id"] != first["id"]
    assert (await stranger.client.get(f"/projects/{project_id}")).status_code == 200
    assert len(await _list_mails(api_app, stranger.user.email)) == 2


async def test_two_at_once_grant_one(api_app: ApiApp, caller: Caller, stranger: Caller) -> None:
    project_id = await caller.create_ready_project()
    first, second = await asyncio.gather(*(_shared(caller, project_id, stranger.user.email) for _ in range(2)))
    assert first == second
    assert await _listed(caller, project_id) == [first]
    assert len(await _list_mails(api_app, stranger.user.email)) == 1


@pytest.mark.parametrize("email", ["", "ada", "@example.com", "ada@", "a b@example.com", "x" * 257, 7, None])
async def test_what_is_no_address_is_refused(caller: Caller, email: Any) -> None:
    project_id = await caller.create_ready_project()
    assert (await caller.client.post(_path(project_id), json={"email": email})).status_code == 400
    assert await _listed(caller, project_id) == []


@pytest.mark.parametrize(("permission_id", "status"), [("00000000-0000-4000-8000-000000000000", 404), ("no-uuid", 400)])
async def test_a_permission_that_is_not_there(caller: Caller, permission_id: str, status: int) -> None:
    project_id = await caller.create_ready_project()
    assert (await caller.client.delete(f"{_path(project_id)}/{permission_id}")).status_code == status


async def test_a_permission_is_revoked_on_its_own_project_only(caller: Caller, stranger: Caller) -> None:
    one, other = await caller.create_ready_project(), await stranger.create_ready_project()
    granted = await _shared(caller, one, WHO_ARE_THEY)
    assert (await stranger.client.delete(_path(other, granted))).status_code == 404
    assert await _listed(caller, one) == [granted]


@pytest.mark.parametrize(
    ("role", "project_role", "sees", "shares"),
    [
        (MemberRole.ADMIN, None, 200, 200),
        (MemberRole.MEMBER, None, 200, 403),
        (MemberRole.EDITOR, ProjectRole.ADMIN, 200, 200),
        (MemberRole.VIEWER, None, 200, 403),
        (MemberRole.COLLABORATOR, None, 404, 404),
        (MemberRole.COLLABORATOR, ProjectRole.EDITOR, 403, 403),
        (MemberRole.COLLABORATOR, ProjectRole.ADMIN, 200, 200),
    ],
)
async def test_admins_of_the_project_share_it_and_people_inside_see_with_whom(
    caller: Caller, stranger: Caller, role: MemberRole, project_role: ProjectRole | None, sees: int, shares: int
) -> None:
    team = await caller.create_organization()
    project_id = await caller.create_ready_project(org_id=team.id)
    member = await stranger.join_organization(team, role)
    if project_role is not None:
        path = f"/projects/{project_id}/members/{member.id}/role"
        assert (await caller.client.put(path, json={"role": project_role})).status_code == 200
    granted = await _shared(caller, project_id, WHO_ARE_THEY)
    assert (await stranger.client.get(_path(project_id))).status_code == sees
    response = await stranger.client.post(_path(project_id), json={"email": "other@example.com"})
    assert response.status_code == shares
    assert (await stranger.client.delete(_path(project_id, granted))).status_code == shares


@pytest.mark.parametrize(("kind", "status"), [(KeyKind.ORGANIZATION, 200), (KeyKind.PROJECT, 403)])
async def test_a_key_of_the_organization_shares_and_one_of_the_project_does_not(
    api_app: ApiApp, caller: Caller, kind: KeyKind, status: int
) -> None:
    project_id = await caller.create_ready_project()
    async with api_app.client(await caller.create_key(kind, project_id if kind is KeyKind.PROJECT else None)) as client:
        assert (await client.post(_path(project_id), json={"email": WHO_ARE_THEY})).status_code == status
        assert (await client.get(_path(project_id))).status_code == status


async def test_whoever_lost_the_project_while_they_shared_it_shares_nothing(api_app: ApiApp, caller: Caller) -> None:
    """The project moves to another organization between authentication and the transaction."""
    project_id, new = await caller.create_ready_project(), await create_caller(api_app)
    async with api_app.services.store.transaction() as rows:
        (project,) = await rows.projects.list_by_ids([(await caller.get_project(project_id))["id"]])
        await rows.projects.lock(project.id)
        late = asyncio.create_task(caller.client.post(_path(project_id), json={"email": caller.user.email}))
        await asyncio.sleep(0.2)
        assert not late.done()
        await rows.projects.set_organization([project.id], new.organization.id, project.updated_at)
    assert (await late).status_code == 404
    assert await _listed(new, project_id) == []
    await new.client.aclose()
