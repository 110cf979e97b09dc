"""Ids of everybody's endpoints are not told to every local user by `/metrics`."""

import stat

from bough.access.metrics_token import load_metrics_token
from support.accounts import add_account, add_key
from support.pages_app import PagesApp
from support.platform import API, Platform


async def test_figures_want_a_key_that_may_read_them(platform: Platform) -> None:
    made = await platform.create_ready_project()
    endpoint = made["endpoints"][0]["id"]
    stranger = await add_key(platform.services, await add_account(platform.services))

    async def answer(front: PagesApp, token: str | None) -> tuple[int, bool]:
        async with front.open_client().client as client:
            headers = {} if token is None else {b"Authorization": f"Bearer {token}".encode("latin-1")}
            said = await client.get("/metrics", headers=headers)
        return said.status_code, endpoint in said.text

    front = PagesApp(platform)
    token = load_metrics_token(front.settings)
    assert await answer(front, None) == (401, False)
    assert await answer(front, "wrong") == (401, False)
    assert await answer(front, "wröng") == (401, False)
    assert await answer(front, stranger) == (403, False)
    assert await answer(front, token) == (200, True)
    assert await answer(front, platform.key) == (200, True)
    assert await answer(PagesApp(platform, metrics_open=True), None) == (200, True)

    async with front.open_client().client as client:
        said = await client.get(f"{API}/projects", headers={"Authorization": f"Bearer {token}"})
    assert said.status_code == 401, "the token opens nothing else"
    assert stat.S_IMODE((front.settings.keys / "metrics").stat().st_mode) == 0o600
