"""Signing up: a mail first, an account after; whoever asks learns nothing about an address."""

import httpx2
import pytest

import world
from pages.front import PASSWORD, Browser, Front, comparable, new_address


async def _asks(browser: Browser, email: str) -> httpx2.Response:
    await browser.get("/signup")
    return await browser.post("/signup", email=email)


async def _finishes(browser: Browser, link: str, name: str = "Grace", password: str = PASSWORD) -> httpx2.Response:
    await browser.get(link)
    return await browser.post("/welcome/finish", token=_token(link), name=name, password=password)


async def _has_account(front: Front, email: str) -> bool:
    async with front.parts.store.read() as rows:
        return await rows.users.with_email(email) is not None


async def test_the_link_in_the_mail_makes_the_account_and_signs_in(front: Front) -> None:
    email, browser = new_address(), front.browser()
    assert (await _asks(browser, email.upper())).status_code == 200
    assert not await _has_account(front, email)
    shown = await browser.get(await front.link_to(email))
    assert email in shown.text
    answer = await _finishes(browser, await front.link_to(email))
    assert (answer.status_code, answer.headers["location"]) == (303, "/account")
    account = await browser.get("/account")
    assert "<h1>Grace</h1>" in account.text
    assert email in account.text


async def test_opening_the_link_uses_nothing_up(front: Front) -> None:
    email, browser = new_address(), front.browser()
    await _asks(browser, email)
    link = await front.link_to(email)
    for scanner in (front.browser(), front.browser()):
        assert (await scanner.get(link)).status_code == 200
        assert (await scanner.client.head(link)).status_code == 200
    assert not await _has_account(front, email)
    assert (await _finishes(browser, link)).status_code == 303


async def test_a_link_works_once(front: Front) -> None:
    email, browser = new_address(), front.browser()
    await _asks(browser, email)
    link = await front.link_to(email)
    await _finishes(browser, link)
    other = front.browser()
    assert (await other.get(link)).status_code == 404
    await other.get("/signin")
    again = await other.post("/welcome/finish", token=_token(link), name="", password=PASSWORD)
    assert again.status_code == 404


@pytest.mark.parametrize("token", ["", "nothing", "a" * 5000, "%00", "é"])
async def test_a_link_that_nobody_made_leads_nowhere(front: Front, token: str) -> None:
    for path in ("/welcome/finish", "/reset", "/welcome", "/invitation"):
        answer = await front.browser().get(f"{path}?token={token}")
        assert answer.status_code == 404
        assert "<h1>" in answer.text


async def test_known_and_unknown_addresses_are_answered_alike(front: Front) -> None:
    known, unknown, browser = (await front.account()).email, new_address(), front.browser()
    answers = [comparable(await _asks(browser, email), email) for email in (known, unknown)]
    assert answers[0] == answers[1]
    assert "has one already" in (await front.letters_to(known))[-1]
    assert "/welcome/finish?token=" not in (await front.letters_to(known))[-1]


@pytest.mark.parametrize("email", ["no address", "ada@example.com\r\nBcc: all@example.com", "", "a" * 300])
async def test_what_is_no_address_is_said_beside_the_form(front: Front, email: str) -> None:
    answer = await _asks(front.browser(), email)
    assert answer.status_code == 400
    assert "bcc" not in answer.headers
    assert await front.letters_to("ada@example.com") == []


@pytest.mark.parametrize(
    ("name", "password", "word"),
    [
        ("Ada\r\nX-Header: 1", PASSWORD, ""),
        ("A" * 65, PASSWORD, "name"),
        ("Ada", "short", "password"),
        ("Ada", "a" * 257, "password"),
        ("Ada", "aaaaaaaaaaaa", "password"),
        ("Ada", "", "password"),
    ],
)
async def test_what_will_not_do_leaves_the_link_to_try_again(front: Front, name: str, password: str, word: str) -> None:
    email, browser = new_address(), front.browser()
    await _asks(browser, email)
    link = await front.link_to(email)
    answer = await _finishes(browser, link, name, password)
    assert answer.status_code == 400
    assert word in answer.text
    assert not password or f'value="{password}"' not in answer.text
    assert "x-header" not in answer.headers
    assert not await _has_account(front, email)
    assert (await _finishes(browser, link)).status_code == 303


async def test_the_address_is_no_password(front: Front) -> None:
    email, browser = f"averylongname{new_address()}", front.browser()
    await _asks(browser, email)
    assert (await _finishes(browser, await front.link_to(email), password=email.partition("@")[0])).status_code == 400


async def test_nobody_prepares_an_account_with_the_address_of_another(front: Front) -> None:
    """Whoever asked chose nothing that counts: the password is that of who follows the link."""
    email, browser = new_address(), front.browser()
    await browser.get("/signup")
    await browser.post("/signup", email=email, name="Mallory", password="a password of Mallory's")
    await _finishes(front.browser(), await front.link_to(email))
    await browser.get("/signin")
    assert (await browser.post("/signin", email=email, password="a password of Mallory's")).status_code == 401
    assert (await browser.post("/signin", email=email, password=PASSWORD)).status_code == 303


async def test_what_was_typed_is_kept_and_escaped(front: Front) -> None:
    answer = await _asks(front.browser(), 'ada"><b>@example.com')
    assert "<b>" not in answer.text
    assert "ada&#34;&gt;&lt;b&gt;@example.com" in answer.text
    email, browser = new_address(), front.browser()
    await _asks(browser, email)
    answer = await _finishes(browser, await front.link_to(email), "<script>alert(1)</script>", "short")
    assert answer.status_code == 400
    assert "<script" not in answer.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in answer.text


async def test_mails_to_one_address_are_few(front: Front) -> None:
    email = new_address()
    for _ in range(5):
        assert (await _asks(front.browser(), email)).status_code == 200
    refused = await _asks(front.browser(), email)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 1
    assert len(await front.letters_to(email)) == 5


async def test_links_never_say_what_the_request_said_of_its_host(front: Front) -> None:
    email, browser = new_address(), front.browser()
    evil = {"Host": "evil.example", "Origin": "http://evil.example"}
    shown = await browser.get("/signup", headers=evil)
    answer = await browser.post("/signup", evil, email=email)
    assert answer.status_code == 200
    letter = (await front.letters_to(email))[-1]
    assert "evil" not in shown.text + answer.text + str(answer.headers) + letter
    assert "http://127.0.0.1:8432/welcome/finish?token=" in letter


@pytest.mark.parametrize(("sign_up", "words"), [("invitation", "by invitation"), ("closed", "by the operator")])
async def test_where_not_everybody_may_sign_up_the_page_says_who_may(
    shared_platform: world.Platform, sign_up: str, words: str
) -> None:
    front, email = Front(shared_platform, sign_up=sign_up), new_address()
    browser = front.browser()
    assert "/signup" not in (await browser.get("/signin")).text
    shown = await browser.get("/signup")
    assert shown.status_code == 200
    assert words in shown.text
    assert "<form" not in shown.text
    await browser.get("/signin")
    refused = await browser.post("/signup", email=email)
    assert refused.status_code == 403
    assert await front.letters_to(email) == []


def _token(link: str) -> str:
    return link.partition("token=")[2]
