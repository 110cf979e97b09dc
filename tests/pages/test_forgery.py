"""Forged forms are rejected by their origin and by the missing token."""

import pytest

from bough.pages import routes
from bough.pages.page_app import PageApp
from support import platform
from support.pages_app import PagesApp, SignedInClient

POSTS = [
    route.path for route in routes.routes() if isinstance(route.endpoint, PageApp) and "POST" in route.endpoint.methods
]
FIELDS = {"name": "forged", "email": "forged@example.com", "password": "a forged password", "old": "x", "new": "y"}
ORIGIN = "http://bough.test"
FOREIGN_ORIGINS = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://bough.test.evil.example"},
    {"Origin": "http://evil-bough.test"},
    {"Origin": "http://bough.test:8080"},
    {"Origin": "http://bough.test@evil.example"},
    {"Origin": "http://[bough.test"},
    {"Origin": "http://evil.example", "Referer": f"{ORIGIN}/account"},
    {"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
    {"Referer": "http://evil.example/?http://bough.test"},
    {"Referer": ""},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {},
]
OWN_ORIGINS = [
    {"Origin": ORIGIN},
    {"Origin": "HTTP://BOUGH.test"},
    {"Referer": f"{ORIGIN}/account?done=x"},
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
]


async def _read_state(app: PagesApp, person: SignedInClient) -> tuple[object, ...]:
    """Returns everything that one of the forms could change."""
    async with app.services.store.read() as rows:
        return (
            await rows.users.get(person.user.id),
            await rows.users.get_by_email(FIELDS["email"]),
            await rows.sessions.list_by_user(person.user.id, person.user.created_at),
            await rows.api_keys.list_personal(person.user.id),
            await rows.organizations.list_by_user(person.user.id),
            await app.list_mails(FIELDS["email"]),
        )


def test_there_are_forms_to_forge() -> None:
    assert {"/signin", "/signout", "/account/keys", "/account/password"} <= set(POSTS)


@pytest.mark.parametrize("headers", FOREIGN_ORIGINS, ids=str)
async def test_a_form_that_comes_from_elsewhere_changes_nothing(pages_app: PagesApp, headers: dict[str, str]) -> None:
    person = await pages_app.sign_in_new_user()
    before = await _read_state(pages_app, person)
    for path in POSTS:
        response = await person.client.post(path, headers, **FIELDS)
        assert response.status_code == 403, path
        assert "nothing was changed" in response.text
        assert "set-cookie" not in response.headers
    assert await _read_state(pages_app, person) == before


@pytest.mark.parametrize("headers", OWN_ORIGINS, ids=str)
async def test_a_form_of_our_own_page_is_taken(pages_app: PagesApp, headers: dict[str, str]) -> None:
    person = await pages_app.sign_in_new_user()
    assert (await person.client.post("/account/organizations", headers, name="ours")).status_code == 303


@pytest.mark.parametrize("token", ["", "0" * 64, "é", "another's", "a visitor's"])
async def test_a_form_without_its_own_token_changes_nothing(pages_app: PagesApp, token: str) -> None:
    person = await pages_app.sign_in_new_user()
    if token == "another's":
        token = (await pages_app.sign_in_new_user()).client.form_token
    elif token == "a visitor's":
        visitor = pages_app.open_client()
        await visitor.get("/signin")
        token = visitor.form_token
    before = await _read_state(pages_app, person)
    for path in POSTS:
        response = await person.client.post(path, **{**FIELDS, "form_token": token})
        assert response.status_code == 403, path
        assert "Reload" in response.text
    assert await _read_state(pages_app, person) == before


async def test_a_visitor_without_the_cookie_of_the_form_is_refused(pages_app: PagesApp) -> None:
    user, browser, other = await pages_app.create_user(), pages_app.open_client(), pages_app.open_client()
    await browser.get("/signin")
    await other.get("/signin")
    response = await other.post("/signin", email=user.email, password="x", form_token=browser.form_token)
    assert response.status_code == 403


async def test_the_token_of_a_session_ends_with_it(pages_app: PagesApp) -> None:
    person = await pages_app.sign_in_new_user()
    token = person.client.form_token
    await person.client.post("/signout")
    await person.client.sign_in(person.user)
    assert (await person.client.post("/account/keys", name="old", form_token=token)).status_code == 403


async def test_where_we_have_a_public_address_only_its_pages_count(shared_platform: platform.Platform) -> None:
    app = PagesApp(shared_platform, public_url="https://db.example.org:443")
    browser, user = app.open_client(), await app.create_user()
    await browser.get("/signin")
    for origin in ("http://db.example.org", "https://db.example.org:8443", "https://evil.example"):
        rejected = await browser.post("/signin", {"Origin": origin}, email=user.email, password="x")
        assert rejected.status_code == 403
        assert "https://db.example.org" in rejected.text
    proxied = {"Origin": "https://db.example.org", "Host": "10.0.0.5:8432"}
    assert (await browser.post("/signin", proxied, email=user.email, password="x")).status_code == 401
