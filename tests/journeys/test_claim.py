"""An instant database is created, written and claimed in the browser of a phone. Its rows are kept."""

import re
import uuid
from pathlib import Path
from typing import Any

import httpx2
from playwright.async_api import Browser, Page, ViewportSize

from journeys.served_project import ADDRESS, TIMEOUT, RunningPlatform, connect_to, fetch_value
from support import requirements
from support.pages_server import launch_chromium

PHONE = ViewportSize(width=360, height=740)
PASSWORD = "correct horse battery"


async def test_a_database_is_made_used_and_claimed(running_platform: RunningPlatform, tmp_path: Path) -> None:
    email, site = f"{uuid.uuid4()}@example.com", running_platform.up_output["api_url"].removesuffix("/api/v2")
    async with (
        launch_chromium(requirements.require_browser()) as browser,
        httpx2.AsyncClient(base_url=f"{site}/api/v1", timeout=TIMEOUT) as instant,
    ):
        database = (await instant.post("/database", json={"ref": "journey"})).raise_for_status().json()
        key, organization = await _create_account(running_platform, browser, email)
        uri = f"{database['connection_string']}&hostaddr={ADDRESS}"
        async with await connect_to(uri) as session:
            await session.execute("create table kept (note text)")
            await session.execute("insert into kept values ('before')")
            context = await browser.new_context(viewport=PHONE, is_mobile=True, has_touch=True)
            await _claim(await context.new_page(), database, email, organization, tmp_path)
            await session.execute("insert into kept values ('after')")
            async with await connect_to(uri) as second_session:
                assert await fetch_value(second_session, "select count(*) from kept") == 2
        claimed = (await instant.get(f"/database/{database['id']}")).raise_for_status().json()
        changed = {"status": "CLAIMED", "connection_string": None, "updated_at": claimed["updated_at"]}
        assert claimed == {**database, **changed}
    _check_owner_and_delete(running_platform, key, organization, database["neon_project_id"])
    assert len(list(tmp_path.glob("*.png"))) == 4


async def _create_account(platform: RunningPlatform, browser: Browser, email: str) -> tuple[str, str]:
    """Creates an account with an organization and an API key. Returns the key and the name of the organization."""
    with _make_http_client(platform, platform.up_output["api_key"]) as operator:
        user = operator.post("/bough/users", json={"email": email}).raise_for_status().json()
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(user["link"])
    await page.fill("#password", PASSWORD)
    await page.click("button.main")
    await page.fill("#organization-name", "Compilers")
    await page.click("text=Create organization")
    await page.wait_for_selector("role=status")
    await page.fill("#key-name", "journey")
    await page.click("text=Create key")
    key = await page.input_value("#key")
    await context.close()
    return key, "Compilers"


async def _claim(page: Page, database: dict[str, Any], email: str, organization: str, screenshots: Path) -> None:
    page.set_default_timeout(TIMEOUT * 1000)
    await page.goto(database["claim_url"])
    assert database["neon_project_id"] in await page.inner_text("main")
    await page.screenshot(path=screenshots / "1-open.png", full_page=True)
    await page.tap("text=Sign in to claim")
    await page.fill("#email", email)
    await page.fill("#password", PASSWORD)
    await page.tap("button.main")
    await page.wait_for_url(database["claim_url"])
    await page.screenshot(path=screenshots / "2-signed-in.png", full_page=True)
    await page.get_by_role("button", name="Claim this database").tap()
    await page.wait_for_selector("text=Choose an organization")
    await page.select_option("#org_id", label=organization)
    await page.screenshot(path=screenshots / "3-choosing.png", full_page=True)
    await page.get_by_role("button", name="Confirm").tap()
    await page.wait_for_selector("text=The database is yours")
    assert organization in await page.inner_text("main")
    await page.screenshot(path=screenshots / "4-done.png", full_page=True)
    await page.tap("text=See it in your account")
    await page.wait_for_url(re.compile("/account"))
    assert database["neon_project_id"] in await page.inner_text("#projects")


def _check_owner_and_delete(platform: RunningPlatform, key: str, organization: str, project_id: str) -> None:
    with _make_http_client(platform, key) as person:
        [org_id] = [
            each["id"]
            for each in person.get("/users/me/organizations").raise_for_status().json()["organizations"]
            if each["name"] == organization
        ]
        projects = person.get("/projects", params={"org_id": org_id}).raise_for_status().json()["projects"]
        assert [each["id"] for each in projects] == [project_id]
        project = person.get(f"/projects/{project_id}").raise_for_status().json()["project"]
        assert project["history_retention_seconds"] > 0
        assert person.delete(f"/projects/{project_id}").status_code == 200


def _make_http_client(platform: RunningPlatform, key: str) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx2.Client(base_url=platform.up_output["api_url"], headers=headers, timeout=TIMEOUT)
