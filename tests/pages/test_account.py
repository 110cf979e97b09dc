"""The account page: it shows only the user's own things, and its forms."""

import re
from dataclasses import replace
from html import unescape

import pytest

from bough import clock
from bough.control.people.keys import create_personal_key
from bough.control.people.organizations import create_organization
from bough.domain.organization import Member, MemberRole
from bough.domain.permission import Permission
from bough.domain.user import User
from bough.ids import BranchId, MemberId, OrganizationId, PermissionId, ProjectId
from bough.pages import account_projects, user_agents
from bough.store.audit import AuditQuery
from support import platform
from support.pages_app import PagesApp, ParsedPage, SignedInClient


async def _add_member(app: PagesApp, user: User, org_id: OrganizationId, role: MemberRole) -> None:
    member = Member(id=MemberId.new(), org_id=org_id, user_id=user.id, role=role, joined_at=clock.now())
    async with app.services.store.transaction() as rows:
        await rows.members.add(member)


async def _read_account_text(person: SignedInClient) -> str:
    response = await person.client.get("/account")
    assert response.status_code == 200
    return unescape(response.text)


async def test_a_project_is_shown_with_both_of_its_connection_strings(pages_app: PagesApp) -> None:
    person = await pages_app.sign_in_new_user()
    created = await pages_app.create_project(person.user, name="shop & co")
    text = await _read_account_text(person)
    [uri] = created["connection_uris"]
    host = uri["connection_parameters"]["host"]
    pooled = uri["connection_uri"].replace(host, uri["connection_parameters"]["pooler_host"])
    for word in (
        "shop & co",
        created["project"]["id"],
        "US East 2 (Ohio)",
        "Postgres 17",
        uri["connection_uri"],
        pooled,
    ):
        assert word in text
    hidden, _, _ = text[text.index("<details>") :].partition("</details>")
    assert uri["connection_parameters"]["password"] in hidden
    assert text.count(uri["connection_parameters"]["password"]) == 2


async def test_nobody_sees_the_project_of_another(pages_app: PagesApp) -> None:
    person, stranger = await pages_app.sign_in_new_user(), await pages_app.create_user()
    created = await pages_app.create_project(stranger, name="theirs alone")
    text = await _read_account_text(person)
    assert "theirs alone" not in text
    assert created["project"]["id"] not in text


async def test_who_may_only_read_a_project_sees_no_password(pages_app: PagesApp) -> None:
    person, owner = await pages_app.sign_in_new_user(), await pages_app.create_user()
    organization = await create_organization(await pages_app.create_context(owner), "Looms")
    created = await pages_app.create_project(owner, name="looms", org_id=organization.id)
    await _add_member(pages_app, person.user, organization.id, MemberRole.VIEWER)
    text = await _read_account_text(person)
    assert "looms" in text
    assert "but not its passwords" in text
    assert created["connection_uris"][0]["connection_parameters"]["password"] not in text


async def test_a_project_that_is_shared_is_shown_with_its_strings(pages_app: PagesApp) -> None:
    person, owner = await pages_app.sign_in_new_user(), await pages_app.create_user()
    created = await pages_app.create_project(owner, name="shared with care")
    permission = Permission(
        id=PermissionId.new(),
        project_id=ProjectId(created["project"]["id"]),
        email=person.user.email,
        granted_by=owner.id,
        granted_at=clock.now(),
    )
    async with pages_app.services.store.transaction() as rows:
        await rows.grants.add_permission(permission)
    text = await _read_account_text(person)
    assert "shared with care" in text
    assert created["connection_uris"][0]["connection_uri"] in text


async def test_a_password_that_is_not_known_here_is_said_in_words(pages_app: PagesApp) -> None:
    person = await pages_app.sign_in_new_user()
    created = await pages_app.create_project(person.user, name="kept elsewhere")
    async with pages_app.services.store.transaction() as rows:
        role = await rows.roles.get(BranchId(created["branch"]["id"]), created["roles"][0]["name"])
        assert role is not None
        await rows.roles.save(replace(role, sealed_password=None))
    text = await _read_account_text(person)
    assert "was set with SQL" in text
    assert "postgresql://" not in text


async def test_a_list_that_is_cut_says_how_to_see_the_rest(
    pages_app: PagesApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = await pages_app.sign_in_new_user()
    for name in ("first", "second", "third"):
        await pages_app.create_project(person.user, name=f"{name} project")
    assert "GET /api/v2/projects" not in await _read_account_text(person)
    monkeypatch.setattr(account_projects, "MAX_PROJECTS", 2)
    text = await _read_account_text(person)
    assert "third project" in text
    assert "first project" not in text
    assert "the 2 newest" in text
    assert "GET /api/v2/projects" in text


async def test_a_new_key_is_shown_once_and_works(pages_app: PagesApp) -> None:
    person = await pages_app.sign_in_new_user()
    response = await person.client.post("/account/keys", name="laptop")
    assert (response.status_code, response.headers["cache-control"]) == (200, "no-store")
    [token] = re.findall(r"bough_key_[A-Za-z0-9]+", response.text)
    text = await _read_account_text(person)
    assert "laptop" in text
    assert "never used" in text
    assert "bough_key_" not in text
    async with pages_app.open_client("192.0.2.99").client as client:
        called = await client.get(f"{platform.API}/users/me", headers={"Authorization": f"Bearer {token}"})
    assert called.json()["id"] == person.user.id
    assert "from 192.0.2.99" in await _read_account_text(person)
    async with pages_app.services.store.read() as rows:
        [key] = await rows.api_keys.list_personal(person.user.id)
    assert token not in repr(key)


async def test_a_revoked_key_stops_working(pages_app: PagesApp) -> None:
    person = await pages_app.sign_in_new_user()
    _key, token = await create_personal_key(await pages_app.create_context(person.user), "old laptop")
    key_id = ParsedPage(await _read_account_text(person)).field_value("key")
    response = await person.client.post("/account/keys/revoke", key=key_id)
    assert (response.status_code, response.headers["location"]) == (303, "/account?done=key-revoked")
    assert "old laptop" not in await _read_account_text(person)
    async with pages_app.open_client().client as client:
        called = await client.get(f"{platform.API}/users/me", headers={"Authorization": f"Bearer {token}"})
    assert called.status_code == 401


async def test_nobody_revokes_the_key_of_another(pages_app: PagesApp) -> None:
    person, other = await pages_app.sign_in_new_user(), await pages_app.create_user()
    key, _token = await create_personal_key(await pages_app.create_context(other), "theirs")
    for key_id in (str(key.id), "999999999", "", "-1", "1e3", "9" * 400, "٣"):
        rejected = await person.client.post("/account/keys/revoke", key=key_id)
        assert rejected.status_code in (400, 404)
    async with pages_app.services.store.read() as rows:
        assert [each.id for each in await rows.api_keys.list_personal(other.id)] == [key.id]


@pytest.mark.parametrize("path", ["/account/keys", "/account/organizations"])
@pytest.mark.parametrize("name", ["", "   ", "x" * 65, "two\nlines"])
async def test_a_name_that_will_not_do_is_refused(pages_app: PagesApp, path: str, name: str) -> None:
    person = await pages_app.sign_in_new_user()
    rejected = await person.client.post(path, name=name)
    assert rejected.status_code == 400
    async with pages_app.services.store.read() as rows:
        assert await rows.api_keys.list_personal(person.user.id) == []
        assert len(await rows.organizations.list_by_user(person.user.id)) == 1


async def test_a_refused_name_stays_in_its_field(pages_app: PagesApp) -> None:
    person = await pages_app.sign_in_new_user()
    shown = ParsedPage((await person.client.post("/account/keys", name="k" * 65)).text)
    values = {field["id"]: field.get("value", "") for field in shown.find_all("input") if "id" in field}
    assert values["key-name"] == "k" * 65
    assert values["organization-name"] == ""


async def test_an_organization_is_made_with_its_maker_as_admin(pages_app: PagesApp) -> None:
    person = await pages_app.sign_in_new_user()
    response = await person.client.post("/account/organizations", name="<b>Looms</b>")
    assert (response.status_code, response.headers["location"]) == (303, "/account?done=organization")
    shown = await person.client.get("/account?done=organization")
    assert "&lt;b&gt;Looms&lt;/b&gt;" in shown.text
    assert "The organization has been created" in shown.text
    async with pages_app.services.store.read() as rows:
        reached = await rows.organizations.list_memberships(person.user.id)
    assert [(each.name, role) for each, role in reached][1:] == [("<b>Looms</b>", MemberRole.ADMIN)]


async def test_only_words_of_ours_are_said_of_what_was_done(pages_app: PagesApp) -> None:
    person = await pages_app.sign_in_new_user()
    shown = await person.client.get("/account?done=Send+your+password+to+evil.example")
    assert "evil" not in shown.text
    assert 'role="status"' not in shown.text


async def test_the_browsers_that_are_signed_in_are_listed(pages_app: PagesApp) -> None:
    person = await pages_app.sign_in_new_user()
    phone = pages_app.open_client("198.51.100.7")
    phone.client.headers["User-Agent"] = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0) Version/17.0 Safari/604.1 <i>"
    await phone.sign_in(person.user)
    text = await _read_account_text(person)
    assert "Safari on iPhone" in text
    assert "from 198.51.100.7" in text
    assert text.count("this browser") == 1


async def test_the_audit_says_what_was_done_on_the_page(pages_app: PagesApp) -> None:
    person = await pages_app.sign_in_new_user()
    await person.client.post("/account/keys", name="laptop")
    await person.client.post("/account/organizations", name="Looms")
    async with pages_app.services.store.read() as rows:
        lines = await rows.audit.page(AuditQuery(user_id=person.user.id), 10, None)
    assert [(line.action, line.actor_kind, line.resource) for line in lines[:2]] == [
        ("create_organization", "person", "Looms"),
        ("create_api_key", "person", "laptop"),
    ]


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0", "Firefox on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/128.0 Safari/537.36 Edg/128.0", "Edge on Windows"),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) AppleWebKit/605.1 Safari/605.1",
            "Safari on macOS",
        ),
        ("Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 Chrome/128.0 Mobile Safari/537.36", "Chrome on Android"),
        ("curl/8.5.0", "curl/8.5.0"),
        ("", "Unknown browser"),
    ],
)
def test_a_browser_has_a_name_for_people(agent: str, name: str) -> None:
    assert user_agents.describe_user_agent(agent) == name


async def test_pages_count_as_requests_do(shared_platform: platform.Platform) -> None:
    app = PagesApp(shared_platform, rate_per_minute=4, rate_per_minute_and_address=6)
    person = await app.sign_in_new_user()
    responses = [await person.client.get("/account") for _ in range(4)]
    assert responses[-1].status_code == 429
    assert int(responses[-1].headers["retry-after"]) >= 1
    anonymous = app.open_client()
    assert [(await anonymous.get("/signin")).status_code for _ in range(7)] == [200] * 6 + [429]
