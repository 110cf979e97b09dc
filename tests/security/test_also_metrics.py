"""Ids of everybody's endpoints are not told to every local user by `/metrics`."""

import stat

import world
from api.accounts import add_account, add_key
from bough.access.metrics_token import metrics_token
from pages.front import Front


async def test_figures_want_a_key_that_may_read_them(platform: world.Platform) -> None:
    made = await platform.ready_project()
    endpoint = made["endpoints"][0]["id"]
    stranger = await add_key(platform.parts, await add_account(platform.parts))

    async def answer(front: Front, token: str | None) -> tuple[int, bool]:
        async with front.browser().client as client:
            headers = {} if token is None else {b"Authorization": f"Bearer {token}".encode("latin-1")}
            said = await client.get("/metrics", headers=headers)
        return said.status_code, endpoint in said.text

    front = Front(platform)
    token = metrics_token(front.settings)
    assert await answer(front, None) == (401, False)
    assert await answer(front, "wrong") == (401, False)
    assert await answer(front, "wröng") == (401, False)
    assert await answer(front, stranger) == (403, False)
    assert await answer(front, token) == (200, True)
    assert await answer(front, platform.key) == (200, True)
    assert await answer(Front(platform, metrics_open=True), None) == (200, True)

    async with front.browser().client as client:
        said = await client.get(f"{world.API}/projects", headers={"Authorization": f"Bearer {token}"})
    assert said.status_code == 401, "the token opens nothing else"
    assert stat.S_IMODE((front.settings.keys / "metrics").stat().st_mode) == 0o600
