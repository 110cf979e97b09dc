"""Signing in and out: one secret a session, the same answer to every wrong guess, no way to elsewhere."""

from dataclasses import replace
from typing import Any

import pytest
from argon2 import PasswordHasher

import world
from bough.access.passwords import Passwords
from bough.pages import way_back
from pages.front import PASSWORD, Front, comparable, new_address

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


async def test_the_first_page_leads_to_signing_in_and_then_to_the_account(front: Front) -> None:
    browser = front.browser()
    assert (await browser.get("/")).headers["location"] == "/signin"
    assert (await browser.get("/account")).headers["location"] == "/signin"
    await browser.signs_in(await front.account())
    assert (await browser.get("/")).headers["location"] == "/account"
    assert (await browser.get("/signin")).headers["location"] == "/account"


async def test_the_address_may_be_written_in_capitals(front: Front) -> None:
    user, browser = await front.account(), front.browser()
    await browser.get("/signin")
    answer = await browser.post("/signin", email=f" {user.email.upper()} ", password=PASSWORD)
    assert (answer.status_code, answer.headers["location"]) == (303, "/account")


async def test_a_wrong_guess_keeps_what_was_typed_but_not_the_password(front: Front) -> None:
    browser, email = front.browser(), new_address()
    await browser.get("/signin")
    answer = await browser.post("/signin", email=email, password="no such password")
    assert answer.status_code == 401
    assert email in answer.text
    assert "no such password" not in answer.text
    assert 'role="alert"' in answer.text


async def test_a_wrong_password_and_an_unknown_address_are_answered_alike(front: Front) -> None:
    user, unknown, browser = await front.account(), new_address(), front.browser()
    await browser.get("/signin")
    wrong = await browser.post("/signin", email=user.email, password="a wrong password")
    absent = await browser.post("/signin", email=unknown, password="a wrong password")
    assert comparable(wrong, user.email) == comparable(absent, unknown)


async def test_a_wrong_password_and_an_unknown_address_take_the_same_work(shared_platform: world.Platform) -> None:
    counted = Counted()
    front = Front(shared_platform, passwords=Passwords(counted))
    user, browser = await front.account(), front.browser()
    await browser.get("/signin")
    await browser.post("/signin", email=new_address(), password="a wrong password")  # makes nobody's digest
    for email in (user.email, new_address(), "no address"):
        counted.verified = counted.hashed = 0
        await browser.post("/signin", email=email, password="a wrong password")
        assert (counted.verified, counted.hashed) == (1, 0)


class Counted(PasswordHasher):
    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=8, parallelism=1)
        self.verified = self.hashed = 0

    def verify(self, *given: Any) -> Any:
        self.verified += 1
        return super().verify(*given)

    def hash(self, *given: Any, **options: Any) -> str:
        self.hashed += 1
        return super().hash(*given, **options)


async def test_a_digest_of_less_work_is_made_anew_at_sign_in(shared_platform: world.Platform) -> None:
    user = await Front(shared_platform).account()
    stronger = Front(shared_platform, passwords=Passwords(PasswordHasher(time_cost=2, memory_cost=8, parallelism=1)))
    await stronger.browser().signs_in(user)
    async with stronger.parts.store.read() as rows:
        after = await rows.users.get(user.id)
    assert after is not None
    assert after.password_digest is not None
    assert after.password_digest != user.password_digest
    assert "t=2" in after.password_digest
    await stronger.browser().signs_in(user)


async def test_a_password_that_is_changed_during_sign_in_stays_changed(shared_platform: world.Platform) -> None:
    changing = Changing(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    front = Front(shared_platform, passwords=changing)
    user, browser = await front.account(), front.browser()
    changing.front, changing.to = front, replace(user, password_digest="another")
    await browser.get("/signin")
    assert (await browser.post("/signin", email=user.email, password=PASSWORD)).status_code == 401
    async with front.parts.store.read() as rows:
        after = await rows.users.get(user.id)
    assert after is not None
    assert after.password_digest == "another"


class Changing(Passwords):
    """While it checks one, somebody resets the password."""

    front: Front
    to: Any

    async def matches(self, digest: str | None, password: str) -> bool:
        async with self.front.parts.store.transaction() as rows:
            await rows.users.save(self.to)
        return await super().matches(digest, password)


async def test_after_too_many_guesses_even_the_right_password_waits(front: Front) -> None:
    user, other, browser = await front.account(), await front.account(), front.browser("192.0.2.7")
    await browser.get("/signin")
    statuses = [
        (await browser.post("/signin", email=user.email, password="wrong guess")).status_code for _ in range(11)
    ]
    assert statuses == [401] * 10 + [429]
    right = await browser.post("/signin", email=user.email, password=PASSWORD)
    assert right.status_code == 429
    assert int(right.headers["retry-after"]) >= 1
    assert user.email in right.text
    await front.browser("192.0.2.8").signs_in(other)
    await front.browser("192.0.2.8").signs_in(user)


async def test_guesses_at_many_accounts_from_one_place_are_stopped_too(front: Front) -> None:
    browser = front.browser("2001:db8::1")
    await browser.get("/signin")
    for _ in range(30):
        assert (await browser.post("/signin", email=new_address(), password="wrong guess")).status_code == 401
    beside = front.browser("2001:db8::ffff")
    await beside.get("/signin")
    assert (await beside.post("/signin", email=new_address(), password="wrong guess")).status_code == 429


@pytest.mark.parametrize("path", ELSEWHERE)
def test_no_way_leads_elsewhere(path: str) -> None:
    assert way_back.ours(path) == "/account"


@pytest.mark.parametrize("path", ["//evil.example", "/account\r\nSet-Cookie: a=b", "/account%0d%0aX: y"])
async def test_signing_in_goes_on_to_no_other_place(front: Front, path: str) -> None:
    user, browser = await front.account(), front.browser()
    shown = await browser.get("/signin", params={"next": path})
    assert 'name="next" value="/account"' in shown.text
    answer = await browser.post("/signin", email=user.email, password=PASSWORD, next=path)
    if answer.status_code == 303:
        assert answer.headers["location"] == "/account"
    else:
        assert (answer.status_code, answer.headers.get("location")) == (400, None)
    assert "a=b" not in str(answer.headers)


async def test_signing_in_goes_on_to_an_invitation(front: Front) -> None:
    user, browser = await front.account(), front.browser()
    answer = await browser.signs_in(user, next="/invitation?token=abc-DEF_1")
    assert answer.headers["location"] == "/invitation?token=abc-DEF_1"


async def test_every_session_has_a_secret_of_its_own_that_is_not_kept(front: Front) -> None:
    user = await front.account()
    first, second = front.browser(), front.browser()
    await first.signs_in(user)
    await second.signs_in(user)
    assert first.session != second.session
    async with front.parts.store.read() as rows:
        kept = await rows.sessions.of(user.id, user.created_at)
    assert len(kept) == 2
    assert not {first.session, second.session} & {each.digest for each in kept}
    before = first.session
    await first.post("/signin", email=user.email, password=PASSWORD)
    assert first.session != before


async def test_a_secret_that_was_planted_before_never_becomes_a_session(front: Front) -> None:
    user, browser = await front.account(), front.browser()
    planted = "p" * 43
    browser.has(planted)
    await browser.signs_in(user)
    thief = front.browser()
    thief.has(planted)
    assert (await thief.get("/account")).headers["location"] == "/signin"


@pytest.mark.parametrize("value", ["", "x", "é" * 43, "a" * 5000, "../../etc", "null"])
async def test_a_cookie_that_is_none_of_ours_is_nobody(front: Front, value: str) -> None:
    answer = await front.browser().get("/account", headers={"Cookie": f"bough_session={value}".encode()})
    assert (answer.status_code, answer.headers["location"]) == (303, "/signin")


async def test_the_cookies_of_an_http_installation(front: Front) -> None:
    user, browser = await front.account(), front.browser()
    visitor = (await browser.get("/signin")).headers["set-cookie"]
    session = (await browser.post("/signin", email=user.email, password=PASSWORD)).headers["set-cookie"]
    for cookie, name, age in ((visitor, "bough_visitor", 7 * 86400), (session, "bough_session", 30 * 86400)):
        said = {part.strip() for part in cookie.split(";")[1:]}
        assert cookie.startswith(f"{name}=")
        assert said == {"HttpOnly", "SameSite=lax", "Path=/", f"Max-Age={age}"}


async def test_cookies_are_bound_to_us_where_people_come_by_https(shared_platform: world.Platform) -> None:
    front = Front(shared_platform, public_url="https://db.example.org", session_days=2)
    user, browser = await front.account(), front.browser()
    visitor = (await browser.get("/signin")).headers["set-cookie"]
    session = (await browser.post("/signin", email=user.email, password=PASSWORD)).headers["set-cookie"]
    for cookie, name, age in (
        (visitor, "__Host-bough_visitor", 7 * 86400),
        (session, "__Host-bough_session", 2 * 86400),
    ):
        said = {part.strip() for part in cookie.split(";")[1:]}
        assert cookie.startswith(f"{name}=")
        assert said == {"HttpOnly", "Secure", "SameSite=lax", "Path=/", f"Max-Age={age}"}
    plain = front.browser()
    plain.has(session.partition("=")[2].partition(";")[0])
    assert (await plain.get("/account")).headers["location"] == "/signin"


async def test_signing_out_ends_the_session_itself(front: Front) -> None:
    person = await front.person()
    secret = person.browser.session
    answer = await person.browser.post("/signout")
    assert answer.headers["location"] == "/signin"
    assert "Max-Age=0" in answer.headers["set-cookie"]
    thief = front.browser()
    thief.has(secret)
    assert (await thief.get("/account")).headers["location"] == "/signin"


async def test_signing_out_everywhere_ends_every_session_of_one_person(front: Front) -> None:
    person, other = await front.person(), await front.person()
    elsewhere = front.browser()
    await elsewhere.signs_in(person.user)
    assert (await person.browser.post("/signout-everywhere")).headers["location"] == "/signin"
    for browser in (person.browser, elsewhere):
        assert (await browser.get("/account")).headers["location"] == "/signin"
    assert (await other.browser.get("/account")).status_code == 200
