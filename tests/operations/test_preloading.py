"""Preloaded libraries of projects and endpoints, through the API, with real computes."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from bough.config import default_cache
from bough.engine.local.installs import download, installs
from bough.engine.spec import build_branch_spec, build_default_settings
from bough.ids import BranchId, ProjectId
from support.install_cache import copy_cache
from support.platform import API, Platform, open_platform

LOADED = "show shared_preload_libraries"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def platform() -> AsyncIterator[Platform]:
    """The platform's build has an auto_explain that cannot be loaded."""
    with copy_cache(download.fetch_install(17, default_cache())) as cache:
        [install] = [each for each in installs.find_installs(cache).values() if each.is_managed]
        library = install.libraries / "auto_explain.so"
        library.unlink()  # the file is shared with the default cache
        library.write_text("not a library")
        async with open_platform(cache=cache) as opened:
            yield opened


def preload(*names: str) -> dict[str, Any]:
    return {"settings": {"preload_libraries": {"enabled_libraries": list(names)}}}


async def test_a_new_project_has_the_settings_of_spare_computes(platform: Platform) -> None:
    """Otherwise it would never get one."""
    created = await platform.create_project()
    async with platform.store.read() as rows:
        project = await rows.projects.get(ProjectId(created["project"]["id"]))
        branch = await rows.branches.get(ProjectId(created["project"]["id"]), BranchId(created["branch"]["id"]))
    endpoint = await platform.get_endpoint(created)
    assert project is not None
    assert branch is not None
    assert build_branch_spec(project, branch, endpoint).settings == build_default_settings(endpoint.max_cu)
    await platform.run_operations()
    assert await platform.query(created, LOADED) == "pg_stat_statements"
    assert await platform.query(created, "show pg_stat_statements.max") == "1000"


async def test_without_defaults_nothing_is_preloaded(platform: Platform) -> None:
    nothing = {"preload_libraries": {"use_defaults": False, "enabled_libraries": []}}
    project = await platform.create_ready_project(settings=nothing)
    assert await platform.query(project, LOADED) == ""


async def test_the_default_libraries_stay_when_another_one_cannot_be_loaded(platform: Platform) -> None:
    settings = {"preload_libraries": {"use_defaults": True, "enabled_libraries": ["auto_explain"]}}
    project = await platform.create_ready_project(settings=settings)
    assert await platform.query(project, LOADED) == "pg_stat_statements"
    error = await restart(platform, project)
    assert error is not None
    assert "without the preloaded libraries auto_explain:" in error


async def patch_endpoint(platform: Platform, project: dict[str, Any], body: dict[str, Any]) -> list[str]:
    """Change the endpoint, and return the actions that follow."""
    response = await platform.client.patch(f"{API}{endpoint_path(project)}", json={"endpoint": body})
    assert response.status_code == 200, response.text
    await platform.run_operations()
    return [operation["action"] for operation in response.json()["operations"]]


def endpoint_path(project: dict[str, Any]) -> str:
    return f"/projects/{project['project']['id']}/endpoints/{project['endpoints'][0]['id']}"


async def restart(platform: Platform, project: dict[str, Any]) -> str | None:
    """Restart the compute, and return the error of the start."""
    response = await platform.client.post(f"{API}{endpoint_path(project)}/restart")
    assert response.status_code == 200, response.text
    await platform.run_operations()
    started = (await platform.list_operations(project["project"]["id"]))[-1]
    assert (started.kind, started.status) == ("start_compute", "finished")
    return started.error


async def test_a_changed_list_applies_from_the_next_start(platform: Platform) -> None:
    project = await platform.create_ready_project(**preload("pg_stat_statements"))
    assert await platform.query(project, LOADED) == "pg_stat_statements"
    await platform.query(project, "create extension pg_stat_statements")
    assert await platform.query(project, "select count(*) > 0 from pg_stat_statements")
    started_at = await platform.query(project, "select pg_postmaster_start_time()")
    await patch_endpoint(platform, project, preload("pg_prewarm"))
    assert await platform.query(project, "select pg_postmaster_start_time()") == started_at
    assert await restart(platform, project) is None
    assert await platform.query(project, LOADED) == "pg_prewarm"
    await patch_endpoint(platform, project, preload())
    assert await restart(platform, project) is None
    assert await platform.query(project, LOADED) == ""


async def test_a_compute_that_does_not_start_with_a_library_starts_without_it_and_says_so(platform: Platform) -> None:
    project = await platform.create_ready_project()
    await patch_endpoint(platform, project, preload("auto_explain"))
    error = await restart(platform, project)
    assert error is not None
    assert "started without the preloaded libraries auto_explain" in error
    assert await platform.query(project, LOADED) == ""
    listed = (await platform.client.get(f"{API}/projects/{project['project']['id']}/operations")).json()["operations"]
    assert (listed[0]["status"], listed[0]["error"]) == ("finished", error)


async def test_a_library_that_is_not_in_the_catalog_is_refused(platform: Platform) -> None:
    project = await platform.create_ready_project()
    response = await platform.client.patch(f"{API}{endpoint_path(project)}", json={"endpoint": preload("plperl")})
    assert response.status_code == 400
    assert "'plperl' cannot be preloaded with Postgres 17. Available: " in response.json()["message"]
