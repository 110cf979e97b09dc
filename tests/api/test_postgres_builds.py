"""The Postgres builds that the operator sees."""

from typing import Any

import pytest

from bough.config import default_cache
from bough.engine.local.installs import download
from bough.engine.local.installs.installs import Install
from support.api_app import ApiApp
from support.api_client import Caller


@pytest.fixture(scope="module")
def default() -> Install:
    return download.fetch_install(17, default_cache())


async def list_builds(app: ApiApp) -> dict[str, dict[str, Any]]:
    async with app.client(app.platform.key) as client:
        response = await client.get("/bough/postgres")
    assert response.status_code == 200, response.text
    return {build["pin"]: build for build in response.json()["builds"]}


async def test_the_default_build_is_listed_with_its_projects(api_app: ApiApp, caller: Caller, default: Install) -> None:
    before = (await list_builds(api_app))[default.pin]
    assert (before["id"], before["version"], before["is_default"]) == (default.id, default.version, True)
    await caller.create_project()
    after = (await list_builds(api_app))[default.pin]
    assert after["projects"] == before["projects"] + 1
    assert after["outdated_computes"] == []
