"""The pages in a real browser: without scripts, with the keyboard, on a small phone, in light and dark mode."""

from typing import Literal

import pytest
from playwright.async_api import Browser, Page

from bough.control.people import accounts
from bough.control.people.invitations import Invitee, create_invitations
from bough.control.people.keys import create_personal_key
from bough.control.people.organizations import create_organization
from bough.domain.one_time_link import LinkPurpose
from bough.domain.organization import MemberRole
from bough.domain.user import OPERATOR, User
from pages.page_checks import CheckedPage, open_page
from support.pages_app import PASSWORD, PagesApp, make_email

LONG = "x" * 64
SUBMIT = "button.main"


async def _create_account(app: PagesApp, email: str) -> User:
    async with app.services.store.transaction() as rows:
        return await accounts.add_account(rows, email, "Ada", await app.services.passwords.digest(PASSWORD))


async def _sign_in(page: Page, app: PagesApp, email: str) -> None:
    await page.goto(f"{app.url}/signin")
    await page.fill("#email", email)
    await page.fill("#password", PASSWORD)
    await page.click(SUBMIT)


async def test_somebody_signs_up_and_begins_without_any_script(pages_server: PagesApp, browser: Browser) -> None:
    email = make_email()
    async with open_page(browser, java_script_enabled=False) as page:
        await page.goto(pages_server.url)
        await page.click("text=Create an account")
        await page.fill("#email", email)
        await page.click(SUBMIT)
        assert await page.inner_text("h1") == "Check your mail"
        await page.goto(pages_server.url + await pages_server.get_mailed_link(email))
        await page.fill("#name", "Grace Hopper")
        await page.fill("#password", PASSWORD)
        await page.click(SUBMIT)
        assert page.url == f"{pages_server.url}/account"
        assert await page.inner_text("h1") == "Grace Hopper"
        await page.fill("#organization-name", "Compilers")
        await page.click("text=Create organization")
        assert await page.inner_text("[role=status]") == "The organization has been created. You are its admin."
        created = await pages_server.create_project(await _get_user(pages_server, email), name="shop")
        await page.reload()
        direct_uri = page.get_by_label("Direct")
        assert not await direct_uri.is_visible()
        await page.click("summary")
        assert await direct_uri.input_value() == created["connection_uris"][0]["connection_uri"]


async def _get_user(app: PagesApp, email: str) -> User:
    async with app.services.store.read() as rows:
        user = await rows.users.get_by_email(email)
    assert user is not None
    return user


async def test_the_keyboard_is_enough(pages_server: PagesApp, browser: Browser) -> None:
    user = await pages_server.create_user()
    async with open_page(browser) as page:
        await page.goto(f"{pages_server.url}/signin")
        await page.wait_for_function("document.activeElement.id === 'email'")  # the focus is set after loading
        await page.keyboard.type(user.email)
        await page.keyboard.press("Tab")
        await page.keyboard.type(PASSWORD)
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/account")
        await page.keyboard.press("Tab")
        assert await _get_focused(page) == "Skip to the content"
        await page.keyboard.press("Enter")
        await _tab_to(page, "key-name")
        await page.keyboard.type("laptop")
        await page.keyboard.press("Tab")
        assert await _get_focused(page) == "Create key"
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/account/keys")
        await _tab_to(page, "key")
        selected = "({value, selectionStart, selectionEnd}) => value.slice(selectionStart, selectionEnd)"
        copied = str(await page.locator("#key").evaluate(selected))
        assert copied.startswith("bough_key_")
        assert copied == await page.get_by_label("laptop").input_value()
        await page.goto(f"{pages_server.url}/account")
        await _tab_to(page, "Sign out")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/signin")


async def _tab_to(page: Page, target: str) -> None:
    """Presses Tab until the target has the focus. Every focused element must be visibly marked."""
    for _ in range(40):
        await page.keyboard.press("Tab")
        outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", await _get_focused(page)
        if await _get_focused(page) == target:
            return
    pytest.fail(f"the keyboard does not reach {target!r}")


async def _get_focused(page: Page) -> str:
    return str(await page.evaluate("document.activeElement.id || document.activeElement.innerText"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_page_fits_a_small_phone_and_can_be_read(
    pages_server: PagesApp, browser: Browser, scheme: Literal["light", "dark"]
) -> None:
    user = await _create_account(pages_server, f"{scheme}-{LONG[:40]}@{LONG[:60]}.example")
    paths, invitations = await _create_links(pages_server, user)
    async with open_page(browser, color_scheme=scheme, viewport={"width": 320, "height": 640}) as page:
        checked_page = CheckedPage(page, pages_server.url)
        for path in ("/signin", "/signup", "/forgot", *paths, *invitations):
            await page.goto(pages_server.url + path)
            await checked_page.check()
        for path in ("/forgot", "/signup", "/signin"):
            await page.goto(pages_server.url + path)
            await page.fill("#email", f"{scheme}-{LONG}@example.com" if path == "/signin" else make_email())
            if path == "/signin":
                await page.fill("#password", "no password of theirs")
            await page.click(SUBMIT)
            await checked_page.check()
        await _fill_account(pages_server, user)
        await _sign_in(page, pages_server, user.email)
        assert page.url == f"{pages_server.url}/account"
        await checked_page.check()
        for path in (*invitations, "/reset"):
            await page.goto(pages_server.url + path)
            await checked_page.check()
        await page.goto(f"{pages_server.url}/account")
        await page.fill("#password-old", "no password of theirs")
        await page.fill("#password-new", "some other password")
        await page.click("text=Change password")
        await checked_page.check()
        await page.fill("#key-name", LONG)
        await page.click("text=Create key")
        await checked_page.check()


async def _create_links(app: PagesApp, user: User) -> tuple[list[str], list[str]]:
    """Creates a mail link of each kind, and an invitation for the user and for a new address."""
    inviter, other = await app.create_user(), make_email()
    async with app.services.store.transaction() as rows:
        operator = await rows.users.get(OPERATOR)
        assert operator is not None
        tokens = {
            "/welcome": await accounts.add_link(
                rows, app.services.keys, LinkPurpose.WELCOME, user.email, user=operator
            ),
            "/reset": await accounts.add_link(rows, app.services.keys, LinkPurpose.RESET, user.email, user=user),
            "/welcome/finish": await accounts.add_link(rows, app.services.keys, LinkPurpose.SIGN_UP, user.email),
        }
    organization = await create_organization(await app.create_context(inviter), LONG)
    invitees = [Invitee(email, MemberRole.EDITOR) for email in (user.email, other)]
    await create_invitations(await app.create_context(inviter), organization, invitees)
    links = [f"{path}?token={token}" for path, token in tokens.items()]
    return [*links, "/reset?token=none"], [await app.get_mailed_link(user.email), await app.get_mailed_link(other)]


async def _fill_account(app: PagesApp, user: User) -> None:
    """Fills the account with long texts."""
    await app.create_project(user, name=LONG)
    await create_personal_key(await app.create_context(user), LONG)
    await create_organization(await app.create_context(user), LONG)
