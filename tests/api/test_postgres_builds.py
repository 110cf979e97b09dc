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


async def test_the_operator_restarts_computes_of_others(api_app: ApiApp, caller: Caller) -> None:
    created = await caller.create_project()
    project, endpoint = created["project"]["id"], created["endpoints"][0]["id"]
    await caller.finish_operations(project)
    path = f"/bough/projects/{project}/endpoints/{endpoint}/restart"
    async with api_app.client(api_app.platform.key) as operator:
        assert (await operator.get(f"/projects/{project}")).status_code == 404, "the project belongs to somebody else"
        restarted = await operator.post(path)
        assert (await operator.post(path.replace(project, "made-up-12345678"))).status_code == 404
        assert (await operator.post(path.replace(endpoint, "ep-made-up-12345678"))).status_code == 404
    assert restarted.status_code == 200, restarted.text
    await caller.finish_operations(project)
    operations = (await caller.client.get(f"/projects/{project}/operations")).json()["operations"]
    done = {each["id"]: (each["action"], each["status"]) for each in operations}
    assert [done[each] for each in restarted.json()["operation_ids"]] == [
        ("suspend_compute", "finished"),
        ("start_compute", "finished"),
    ]
