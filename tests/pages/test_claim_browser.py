"""The claim page in a real browser: on a small phone, in light and dark mode, without scripts, with the keyboard."""

from dataclasses import replace
from typing import Literal

import pytest
from playwright.async_api import Browser, Page

from bough.control.instant.claims import begin_claim
from bough.control.people.organizations import create_organization
from bough.domain.instant_database import InstantStatus
from bough.domain.user import User
from bough.ids import InstantId
from pages.instant_databases import claim_database, create_instant_database, get_personal_organization
from pages.page_checks import CheckedPage, open_page
from support.pages_app import PASSWORD, PagesApp

LONG = "x" * 64


async def _expect_heading(page: Page, heading: str) -> None:
    await page.wait_for_selector(f"h1:text-is('{heading}')")


async def _sign_in(page: Page, user: User) -> None:
    await page.click("text=Sign in to claim")
    await page.fill("#email", user.email)
    await page.fill("#password", PASSWORD)
    await page.click("button.main")
    await _expect_heading(page, "Claim this database")


async def _check_in_both_modes(checked_page: CheckedPage) -> None:
    """Checks the page in light and dark mode."""
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme in schemes:
        await checked_page.page.emulate_media(color_scheme=scheme)
        await checked_page.check()


async def test_every_stage_fits_a_small_phone_and_can_be_read(pages_server: PagesApp, browser: Browser) -> None:
    created, user = await create_instant_database(pages_server.services), await pages_server.create_user()
    busy, claimed = (
        await create_instant_database(pages_server.services),
        await create_instant_database(pages_server.services),
    )
    await begin_claim(await pages_server.create_context(await pages_server.create_user()), busy.id)
    await claim_database(pages_server, claimed, await pages_server.create_user())
    team = await create_organization(await pages_server.create_context(user), LONG)
    async with pages_server.services.store.transaction() as rows:
        await rows.organizations.save(replace(team, plan="unlimited"))
    async with open_page(browser, viewport={"width": 320, "height": 640}) as page:
        checked_page = CheckedPage(page, pages_server.url)
        for path in (
            busy.claim_path,
            claimed.claim_path,
            f"/claim/{InstantId.new()}",
            f"/signup?next={created.claim_path}",
            created.claim_path,
        ):
            await page.goto(pages_server.url + path)
            await _check_in_both_modes(checked_page)
        await _sign_in(page, user)
        await _check_in_both_modes(checked_page)
        await page.get_by_role("button", name="Claim this database").click()
        await _expect_heading(page, "Choose an organization")
        await _check_in_both_modes(checked_page)
        await page.locator("#org_id option").first.evaluate("option => { option.value = 'org-of-somebody-else' }")
        await page.get_by_role("button", name="Confirm").click()
        await page.wait_for_selector("role=alert")
        await _check_in_both_modes(checked_page)
        await page.select_option("#org_id", team.id)
        await page.get_by_role("button", name="Confirm").click()
        await _expect_heading(page, "The database is yours")
        await _check_in_both_modes(checked_page)
        await page.goto(pages_server.url + claimed.claim_path)
        await _check_in_both_modes(checked_page)


async def test_a_claim_takes_no_script(pages_server: PagesApp, browser: Browser) -> None:
    created, user = await create_instant_database(pages_server.services), await pages_server.create_user()
    async with open_page(browser, java_script_enabled=False) as page:
        await page.goto(f"{pages_server.url}/database/{created.id}")
        await _sign_in(page, user)
        assert page.url == pages_server.url + created.claim_path
        for _ in range(2):  # start, cancel, start again
            await page.get_by_role("button", name="Claim this database").click()
            await page.get_by_role("button", name="Cancel").click()
            await _expect_heading(page, "Claim this database")
        assert (await created.get_details()).status is InstantStatus.UNCLAIMED
        await page.get_by_role("button", name="Claim this database").click()
        await page.get_by_role("button", name="Confirm").click()
        await _expect_heading(page, "The database is yours")
        await page.reload()
        await page.click("text=See it in your account")
        await _expect_heading(page, user.name)
        assert created.project_id in await page.inner_text("main")


async def test_the_keyboard_is_enough_for_a_claim(pages_server: PagesApp, browser: Browser) -> None:
    created, user = await create_instant_database(pages_server.services), await pages_server.create_user()
    team = await create_organization(await pages_server.create_context(user), "Team")
    assert team.id != (await get_personal_organization(pages_server, user)).id
    async with open_page(browser) as page:
        await page.goto(pages_server.url + created.claim_path)
        await _tab_to(page, "Sign in to claim")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#password")
        await page.keyboard.type(user.email)
        await page.keyboard.press("Tab")
        await page.keyboard.type(PASSWORD)
        await page.keyboard.press("Enter")
        await page.wait_for_url(pages_server.url + created.claim_path)
        await _tab_to(page, "Claim this database")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#org_id")
        await _tab_to(page, "org_id")
        await page.keyboard.press("ArrowDown")
        await _tab_to(page, "Confirm")
        await page.keyboard.press("Enter")
        await _expect_heading(page, "The database is yours")
    assert (await created.get_project()).org_id == team.id


async def _tab_to(page: Page, target: str) -> None:
    """Presses Tab until the target has the focus. Every focused element must be visibly marked."""
    for _ in range(20):
        await page.keyboard.press("Tab")
        assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        if await page.evaluate("document.activeElement.id || document.activeElement.innerText") == target:
            return
    pytest.fail(f"the keyboard does not reach {target!r}")
