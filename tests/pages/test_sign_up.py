"""Signing up: first a mail, then the account; the form reveals nothing about an address."""

import httpx2
import pytest

from support import platform
from support.pages_app import PASSWORD, PageClient, PagesApp, make_email, normalize_response


async def _request_sign_up(browser: PageClient, email: str) -> httpx2.Response:
    await browser.get("/signup")
    return await browser.post("/signup", email=email)


async def _finish_sign_up(
    browser: PageClient, link: str, name: str = "Grace", password: str = PASSWORD
) -> httpx2.Response:
    await browser.get(link)
    return await browser.post("/welcome/finish", token=_token(link), name=name, password=password)


async def _has_account(app: PagesApp, email: str) -> bool:
    async with app.services.store.read() as rows:
        return await rows.users.get_by_email(email) is not None


async def test_the_link_in_the_mail_makes_the_account_and_signs_in(pages_app: PagesApp) -> None:
    email, browser = make_email(), pages_app.open_client()
    assert (await _request_sign_up(browser, email.upper())).status_code == 200
    assert not await _has_account(pages_app, email)
    shown = await browser.get(await pages_app.get_mailed_link(email))
    assert email in shown.text
    response = await _finish_sign_up(browser, await pages_app.get_mailed_link(email))
    assert (response.status_code, response.headers["location"]) == (303, "/account")
    account = await browser.get("/account")
    assert "<h1>Grace</h1>" in account.text
    assert email in account.text


async def test_opening_the_link_uses_nothing_up(pages_app: PagesApp) -> None:
    email, browser = make_email(), pages_app.open_client()
    await _request_sign_up(browser, email)
    link = await pages_app.get_mailed_link(email)
    for scanner in (pages_app.open_client(), pages_app.open_client()):
        assert (await scanner.get(link)).status_code == 200
        assert (await scanner.client.head(link)).status_code == 200
    assert not await _has_account(pages_app, email)
    assert (await _finish_sign_up(browser, link)).status_code == 303


async def test_a_link_works_once(pages_app: PagesApp) -> None:
    email, browser = make_email(), pages_app.open_client()
    await _request_sign_up(browser, email)
    link = await pages_app.get_mailed_link(email)
    await _finish_sign_up(browser, link)
    other = pages_app.open_client()
    assert (await other.get(link)).status_code == 404
    await other.get("/signin")
    again = await other.post("/welcome/finish", token=_token(link), name="", password=PASSWORD)
    assert again.status_code == 404


@pytest.mark.parametrize("token", ["", "nothing", "a" * 5000, "%00", "é"])
async def test_a_link_that_nobody_made_leads_nowhere(pages_app: PagesApp, token: str) -> None:
    for path in ("/welcome/finish", "/reset", "/welcome", "/invitation"):
        response = await pages_app.open_client().get(f"{path}?token={token}")
        assert response.status_code == 404
        assert "<h1>" in response.text


async def test_known_and_unknown_addresses_are_answered_alike(pages_app: PagesApp) -> None:
    known, unknown, browser = (await pages_app.create_user()).email, make_email(), pages_app.open_client()
    responses = [normalize_response(await _request_sign_up(browser, email), email) for email in (known, unknown)]
    assert responses[0] == responses[1]
    assert "already has one" in (await pages_app.list_mails(known))[-1]
    assert "/welcome/finish?token=" not in (await pages_app.list_mails(known))[-1]


@pytest.mark.parametrize("email", ["no address", "ada@example.com\r\nBcc: all@example.com", "", "a" * 300])
async def test_what_is_no_address_is_said_beside_the_form(pages_app: PagesApp, email: str) -> None:
    response = await _request_sign_up(pages_app.open_client(), email)
    assert response.status_code == 400
    assert "bcc" not in response.headers
    assert await pages_app.list_mails("ada@example.com") == []


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
async def test_what_will_not_do_leaves_the_link_to_try_again(
    pages_app: PagesApp, name: str, password: str, word: str
) -> None:
    email, browser = make_email(), pages_app.open_client()
    await _request_sign_up(browser, email)
    link = await pages_app.get_mailed_link(email)
    response = await _finish_sign_up(browser, link, name, password)
    assert response.status_code == 400
    assert word in response.text
    assert not password or f'value="{password}"' not in response.text
    assert "x-header" not in response.headers
    assert not await _has_account(pages_app, email)
    assert (await _finish_sign_up(browser, link)).status_code == 303


async def test_the_address_is_no_password(pages_app: PagesApp) -> None:
    email, browser = f"averylongname{make_email()}", pages_app.open_client()
    await _request_sign_up(browser, email)
    assert (
        await _finish_sign_up(browser, await pages_app.get_mailed_link(email), password=email.partition("@")[0])
    ).status_code == 400


async def test_nobody_prepares_an_account_with_the_address_of_another(pages_app: PagesApp) -> None:
    """Only the password of the user who follows the link counts."""
    email, browser = make_email(), pages_app.open_client()
    await browser.get("/signup")
    await browser.post("/signup", email=email, name="Mallory", password="a password of Mallory's")
    await _finish_sign_up(pages_app.open_client(), await pages_app.get_mailed_link(email))
    await browser.get("/signin")
    assert (await browser.post("/signin", email=email, password="a password of Mallory's")).status_code == 401
    assert (await browser.post("/signin", email=email, password=PASSWORD)).status_code == 303


async def test_what_was_typed_is_kept_and_escaped(pages_app: PagesApp) -> None:
    response = await _request_sign_up(pages_app.open_client(), 'ada"><b>@example.com')
    assert "<b>" not in response.text
    assert "ada&#34;&gt;&lt;b&gt;@example.com" in response.text
    email, browser = make_email(), pages_app.open_client()
    await _request_sign_up(browser, email)
    response = await _finish_sign_up(
        browser, await pages_app.get_mailed_link(email), "<script>alert(1)</script>", "short"
    )
    assert response.status_code == 400
    assert "<script" not in response.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in response.text


async def test_mails_to_one_address_are_few(pages_app: PagesApp) -> None:
    email = make_email()
    for _ in range(5):
        assert (await _request_sign_up(pages_app.open_client(), email)).status_code == 200
    rejected = await _request_sign_up(pages_app.open_client(), email)
    assert rejected.status_code == 429
    assert int(rejected.headers["retry-after"]) > 1
    assert len(await pages_app.list_mails(email)) == 5


async def test_links_never_say_what_the_request_said_of_its_host(pages_app: PagesApp) -> None:
    email, browser = make_email(), pages_app.open_client()
    evil = {"Host": "evil.example", "Origin": "http://evil.example"}
    shown = await browser.get("/signup", headers=evil)
    response = await browser.post("/signup", evil, email=email)
    assert response.status_code == 200
    mail = (await pages_app.list_mails(email))[-1]
    assert "evil" not in shown.text + response.text + str(response.headers) + mail
    assert "http://127.0.0.1:8432/welcome/finish?token=" in mail


@pytest.mark.parametrize(("sign_up", "words"), [("invitation", "need an invitation"), ("closed", "Only the operator")])
async def test_where_not_everybody_may_sign_up_the_page_says_who_may(
    shared_platform: platform.Platform, sign_up: str, words: str
) -> None:
    app, email = PagesApp(shared_platform, sign_up=sign_up), make_email()
    browser = app.open_client()
    assert "/signup" not in (await browser.get("/signin")).text
    shown = await browser.get("/signup")
    assert shown.status_code == 200
    assert words in shown.text
    assert "<form" not in shown.text
    await browser.get("/signin")
    rejected = await browser.post("/signup", email=email)
    assert rejected.status_code == 403
    assert await app.list_mails(email) == []


def _token(link: str) -> str:
    return link.partition("token=")[2]
