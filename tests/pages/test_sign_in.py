"""Signing in and out: one secret per session, the same error for every wrong guess, no open redirects."""

from dataclasses import replace
from typing import Any

import pytest
from argon2 import PasswordHasher

from bough.access.passwords import Passwords
from bough.pages import return_paths
from support import platform
from support.pages_app import PASSWORD, PagesApp, make_email, normalize_response

ELSEWHERE = [
    "//evil.example",
    "https://evil.example/account",
    "https:evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "/account\\@evil.example",
    "/account@evil.example",
    "/%2fevil.example",
    "/%5cevil.example",
    "/account%0d%0aSet-Cookie:%20a=b",
    "javascript:alert(1)",
    "/account/../..//evil.example",
    "/invitation?token=a/../../evil",
    "/invitation?token=",
    "/invitation?token=a&next=//evil.example",
    "/signout",
    " /account",
    "",
]


async def test_the_first_page_leads_to_signing_in_and_then_to_the_account(pages_app: PagesApp) -> None:
    browser = pages_app.open_client()
    assert (await browser.get("/")).headers["location"] == "/signin"
    assert (await browser.get("/account")).headers["location"] == "/signin"
    await browser.sign_in(await pages_app.create_user())
    assert (await browser.get("/")).headers["location"] == "/account"
    assert (await browser.get("/signin")).headers["location"] == "/account"


async def test_the_address_may_be_written_in_capitals(pages_app: PagesApp) -> None:
    user, browser = await pages_app.create_user(), pages_app.open_client()
    await browser.get("/signin")
    response = await browser.post("/signin", email=f" {user.email.upper()} ", password=PASSWORD)
    assert (response.status_code, response.headers["location"]) == (303, "/account")


async def test_a_wrong_guess_keeps_what_was_typed_but_not_the_password(pages_app: PagesApp) -> None:
    browser, email = pages_app.open_client(), make_email()
    await browser.get("/signin")
    response = await browser.post("/signin", email=email, password="no such password")
    assert response.status_code == 401
    assert email in response.text
    assert "no such password" not in response.text
    assert 'role="alert"' in response.text


async def test_a_wrong_password_and_an_unknown_address_are_answered_alike(pages_app: PagesApp) -> None:
    user, unknown, browser = await pages_app.create_user(), make_email(), pages_app.open_client()
    await browser.get("/signin")
    wrong = await browser.post("/signin", email=user.email, password="a wrong password")
    absent = await browser.post("/signin", email=unknown, password="a wrong password")
    assert normalize_response(wrong, user.email) == normalize_response(absent, unknown)


async def test_a_wrong_password_and_an_unknown_address_take_the_same_work(shared_platform: platform.Platform) -> None:
    hasher = CountingHasher()
    app = PagesApp(shared_platform, passwords=Passwords(hasher))
    user, browser = await app.create_user(), app.open_client()
    await browser.get("/signin")
    await browser.post("/signin", email=make_email(), password="a wrong password")  # computes the dummy digest
    for email in (user.email, make_email(), "no address"):
        hasher.verified = hasher.hashed = 0
        await browser.post("/signin", email=email, password="a wrong password")
        assert (hasher.verified, hasher.hashed) == (1, 0)


class CountingHasher(PasswordHasher):
    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=8, parallelism=1)
        self.verified = self.hashed = 0

    def verify(self, *arguments: Any) -> Any:
        self.verified += 1
        return super().verify(*arguments)

    def hash(self, *arguments: Any, **options: Any) -> str:
        self.hashed += 1
        return super().hash(*arguments, **options)


async def test_a_digest_of_less_work_is_made_anew_at_sign_in(shared_platform: platform.Platform) -> None:
    user = await PagesApp(shared_platform).create_user()
    stronger = PagesApp(shared_platform, passwords=Passwords(PasswordHasher(time_cost=2, memory_cost=8, parallelism=1)))
    await stronger.open_client().sign_in(user)
    async with stronger.services.store.read() as rows:
        row = await rows.users.get(user.id)
    assert row is not None
    assert row.password_digest is not None
    assert row.password_digest != user.password_digest
    assert "t=2" in row.password_digest
    await stronger.open_client().sign_in(user)


async def test_a_password_that_is_changed_during_sign_in_stays_changed(shared_platform: platform.Platform) -> None:
    passwords = PasswordsWithReset(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    app = PagesApp(shared_platform, passwords=passwords)
    user, browser = await app.create_user(), app.open_client()
    passwords.app, passwords.to = app, replace(user, password_digest="another")
    await browser.get("/signin")
    assert (await browser.post("/signin", email=user.email, password=PASSWORD)).status_code == 401
    async with app.services.store.read() as rows:
        row = await rows.users.get(user.id)
    assert row is not None
    assert row.password_digest == "another"


class PasswordsWithReset(Passwords):
    """Saves another password while the old one is being checked."""

    app: PagesApp
    to: Any

    async def matches(self, digest: str | None, password: str) -> bool:
        async with self.app.services.store.transaction() as rows:
            await rows.users.save(self.to)
        return await super().matches(digest, password)


async def test_after_too_many_guesses_even_the_right_password_waits(pages_app: PagesApp) -> None:
    user, other, browser = (
        await pages_app.create_user(),
        await pages_app.create_user(),
        pages_app.open_client("192.0.2.7"),
    )
    await browser.get("/signin")
    statuses = [
        (await browser.post("/signin", email=user.email, password="wrong guess")).status_code for _ in range(11)
    ]
    assert statuses == [401] * 10 + [429]
    right = await browser.post("/signin", email=user.email, password=PASSWORD)
    assert right.status_code == 429
    assert int(right.headers["retry-after"]) >= 1
    assert user.email in right.text
    await pages_app.open_client("192.0.2.8").sign_in(other)
    await pages_app.open_client("192.0.2.8").sign_in(user)


async def test_guesses_at_many_accounts_from_one_place_are_stopped_too(pages_app: PagesApp) -> None:
    browser = pages_app.open_client("2001:db8::1")
    await browser.get("/signin")
    for _ in range(30):
        assert (await browser.post("/signin", email=make_email(), password="wrong guess")).status_code == 401
    neighbor = pages_app.open_client("2001:db8::ffff")
    await neighbor.get("/signin")
    assert (await neighbor.post("/signin", email=make_email(), password="wrong guess")).status_code == 429


@pytest.mark.parametrize("path", ELSEWHERE)
def test_no_way_leads_elsewhere(path: str) -> None:
    assert return_paths.sanitize_return_path(path) == "/account"


@pytest.mark.parametrize("path", ["//evil.example", "/account\r\nSet-Cookie: a=b", "/account%0d%0aX: y"])
async def test_signing_in_goes_on_to_no_other_place(pages_app: PagesApp, path: str) -> None:
    user, browser = await pages_app.create_user(), pages_app.open_client()
    shown = await browser.get("/signin", params={"next": path})
    assert 'name="next" value="/account"' in shown.text
    response = await browser.post("/signin", email=user.email, password=PASSWORD, next=path)
    if response.status_code == 303:
        assert response.headers["location"] == "/account"
    else:
        assert (response.status_code, response.headers.get("location")) == (400, None)
    assert "a=b" not in str(response.headers)


async def test_signing_in_goes_on_to_an_invitation(pages_app: PagesApp) -> None:
    user, browser = await pages_app.create_user(), pages_app.open_client()
    response = await browser.sign_in(user, next="/invitation?token=abc-DEF_1")
    assert response.headers["location"] == "/invitation?token=abc-DEF_1"


async def test_every_session_has_a_secret_of_its_own_that_is_not_kept(pages_app: PagesApp) -> None:
    user = await pages_app.create_user()
    first, second = pages_app.open_client(), pages_app.open_client()
    await first.sign_in(user)
    await second.sign_in(user)
    assert first.session != second.session
    async with pages_app.services.store.read() as rows:
        kept = await rows.sessions.list_by_user(user.id, user.created_at)
    assert len(kept) == 2
    assert not {first.session, second.session} & {each.digest for each in kept}
    before = first.session
    await first.post("/signin", email=user.email, password=PASSWORD)
    assert first.session != before


async def test_a_secret_that_was_planted_before_never_becomes_a_session(pages_app: PagesApp) -> None:
    user, browser = await pages_app.create_user(), pages_app.open_client()
    planted = "p" * 43
    browser.set_session_cookie(planted)
    await browser.sign_in(user)
    thief = pages_app.open_client()
    thief.set_session_cookie(planted)
    assert (await thief.get("/account")).headers["location"] == "/signin"


@pytest.mark.parametrize("value", ["", "x", "é" * 43, "a" * 5000, "../../etc", "null"])
async def test_a_cookie_that_is_none_of_ours_is_nobody(pages_app: PagesApp, value: str) -> None:
    response = await pages_app.open_client().get("/account", headers={"Cookie": f"bough_session={value}".encode()})
    assert (response.status_code, response.headers["location"]) == (303, "/signin")


async def test_the_cookies_of_an_http_installation(pages_app: PagesApp) -> None:
    user, browser = await pages_app.create_user(), pages_app.open_client()
    visitor = (await browser.get("/signin")).headers["set-cookie"]
    session = (await browser.post("/signin", email=user.email, password=PASSWORD)).headers["set-cookie"]
    for cookie, name, age in ((visitor, "bough_visitor", 7 * 86400), (session, "bough_session", 30 * 86400)):
        attributes = {part.strip() for part in cookie.split(";")[1:]}
        assert cookie.startswith(f"{name}=")
        assert attributes == {"HttpOnly", "SameSite=lax", "Path=/", f"Max-Age={age}"}


async def test_cookies_are_bound_to_us_where_people_come_by_https(shared_platform: platform.Platform) -> None:
    app = PagesApp(shared_platform, public_url="https://db.example.org", session_days=2)
    user, browser = await app.create_user(), app.open_client()
    visitor = (await browser.get("/signin")).headers["set-cookie"]
    session = (await browser.post("/signin", email=user.email, password=PASSWORD)).headers["set-cookie"]
    for cookie, name, age in (
        (visitor, "__Host-bough_visitor", 7 * 86400),
        (session, "__Host-bough_session", 2 * 86400),
    ):
        attributes = {part.strip() for part in cookie.split(";")[1:]}
        assert cookie.startswith(f"{name}=")
        assert attributes == {"HttpOnly", "Secure", "SameSite=lax", "Path=/", f"Max-Age={age}"}
    plain = app.open_client()
    plain.set_session_cookie(session.partition("=")[2].partition(";")[0])
    assert (await plain.get("/account")).headers["location"] == "/signin"


async def test_signing_out_ends_the_session_itself(pages_app: PagesApp) -> None:
    person = await pages_app.sign_in_new_user()
    secret = person.client.session
    response = await person.client.post("/signout")
    assert response.headers["location"] == "/signin"
    assert "Max-Age=0" in response.headers["set-cookie"]
    thief = pages_app.open_client()
    thief.set_session_cookie(secret)
    assert (await thief.get("/account")).headers["location"] == "/signin"


async def test_signing_out_everywhere_ends_every_session_of_one_person(pages_app: PagesApp) -> None:
    person, other = await pages_app.sign_in_new_user(), await pages_app.sign_in_new_user()
    elsewhere = pages_app.open_client()
    await elsewhere.sign_in(person.user)
    assert (await person.client.post("/signout-everywhere")).headers["location"] == "/signin"
    for browser in (person.client, elsewhere):
        assert (await browser.get("/account")).headers["location"] == "/signin"
    assert (await other.client.get("/account")).status_code == 200
