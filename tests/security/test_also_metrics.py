"""`/metrics`, which contains the endpoint ids of all projects, requires a token or an authorized key."""

import stat

from bough.access.metrics_token import load_metrics_token
from support.accounts import add_account, add_key
from support.pages_app import PagesApp
from support.platform import API, Platform


async def test_figures_want_a_key_that_may_read_them(platform: Platform) -> None:
    created = await platform.create_ready_project()
    endpoint = created["endpoints"][0]["id"]
    other_key = await add_key(platform.services, await add_account(platform.services))

    async def get_metrics(app: PagesApp, token: str | None) -> tuple[int, bool]:
        async with app.open_client().client as client:
            headers = {} if token is None else {b"Authorization": f"Bearer {token}".encode("latin-1")}
            response = await client.get("/metrics", headers=headers)
        return response.status_code, endpoint in response.text

    app = PagesApp(platform)
    token = load_metrics_token(app.settings)
    assert await get_metrics(app, None) == (401, False)
    assert await get_metrics(app, "wrong") == (401, False)
    assert await get_metrics(app, "wröng") == (401, False)
    assert await get_metrics(app, other_key) == (403, False)
    assert await get_metrics(app, token) == (200, True)
    assert await get_metrics(app, platform.key) == (200, True)
    assert await get_metrics(PagesApp(platform, metrics_open=True), None) == (200, True)

    async with app.open_client().client as client:
        response = await client.get(f"{API}/projects", headers={"Authorization": f"Bearer {token}"})
    assert response.status_code == 401, "the token must not be accepted by the API"
    assert stat.S_IMODE((app.settings.keys / "metrics").stat().st_mode) == 0o600
