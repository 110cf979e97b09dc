"""Invalid projects: the error message says what to change, and nothing is stored."""

from dataclasses import replace

import pytest

from bough.ids import ProjectId
from support.api_app import ApiApp
from support.api_client import Caller, Json, create_caller

SENTENCES: list[tuple[Json, str]] = [
    ({"region_id": "moon-far-side"}, "no region 'moon-far-side' here. Regions: aws-us-east-2"),
    ({"region_id": ""}, "no region"),
    ({"autoscaling_limit_min_cu": 2, "autoscaling_limit_max_cu": 1}, "is larger than autoscaling_limit_max_cu"),
    ({"autoscaling_limit_max_cu": 65}, "exceeds the 64 CU that the plan allows"),
    ({"default_endpoint_settings": {"suspend_timeout_seconds": 1}}, "suspend_timeout_seconds is 1"),
    ({"default_endpoint_settings": {"suspend_timeout_seconds": 59}}, "use 0 for the default, -1 for never"),
    ({"default_endpoint_settings": {"suspend_timeout_seconds": -2}}, "suspend_timeout_seconds"),
    ({"default_endpoint_settings": {"suspend_timeout_seconds": 604801}}, "suspend_timeout_seconds"),
    ({"default_endpoint_settings": {"pg_settings": {"no good": "1"}}}, "pg_settings"),
    ({"default_endpoint_settings": {"pg_settings": {"a" * 64: "1"}}}, "pg_settings"),
    (
        {"default_endpoint_settings": {"pgbouncer_settings": {"max_client_conn": "9"}}},
        "Supported settings: pool_mode, default",
    ),
    ({"default_endpoint_settings": {"pgbouncer_settings": {"no good": "9"}}}, "has 'no good', which is not supported"),
    ({"default_endpoint_settings": {"pgbouncer_settings": {"pool_mode": "session"}}}, "only transaction is supported"),
    ({"default_endpoint_settings": {"pgbouncer_settings": {"default_pool_size": "0"}}}, "number from 1 to 10000"),
    ({"default_endpoint_settings": {"pgbouncer_settings": {"query_wait_timeout": "1s"}}}, "is '1s': use seconds"),
    ({"default_endpoint_settings": {"pgbouncer_settings": {"default_pool_size": 5}}}, "default_pool_size"),
    ({"settings": {"allowed_ips": {"ips": ["not an address"]}}}, "'not an address' is not an IP address"),
    ({"settings": {"allowed_ips": {"ips": ["10.0.0.0/33"]}}}, "10.0.0.0/33"),
    ({"settings": {"allowed_ips": {"ips": ["10.0.0.1-::1"]}}}, "10.0.0.1-::1"),
    ({"settings": {"allowed_ips": {"ips": ["10.0.0.9-10.0.0.1"]}}}, "10.0.0.9-10.0.0.1"),
    ({"settings": {"allowed_ips": {"ips": [""]}}}, "allowed_ips"),
    ({"settings": {"maintenance_window": {"weekdays": [1]}}}, "maintenance_window"),
    ({"settings": {"maintenance_window": {"weekdays": [8], "start_time": "01:00", "end_time": "02:00"}}}, "weekdays"),
    ({"settings": {"maintenance_window": {"weekdays": [0], "start_time": "01:00", "end_time": "02:00"}}}, "weekdays"),
    ({"settings": {"maintenance_window": {"weekdays": [1], "start_time": "25:00", "end_time": "02:00"}}}, "HH:MM"),
    ({"settings": {"maintenance_window": {"weekdays": [1], "start_time": "1:00", "end_time": "02:00"}}}, "HH:MM"),
    ({"settings": {"maintenance_window": {"weekdays": [], "start_time": "01:00", "end_time": "02:00"}}}, "one day"),
    ({"settings": {"maintenance_window": {"weekdays": [1], "start_time": "01:00", "end_time": "01:30"}}}, "one hour"),
    ({"settings": {"maintenance_window": {"weekdays": [1], "start_time": "22:00", "end_time": "03:00"}}}, "same day"),
    ({"settings": {"maintenance_window": {"weekdays": 1, "start_time": "01:00", "end_time": "02:00"}}}, "weekdays"),
    ({"settings": {"preload_libraries": {"enabled_libraries": ["../evil"]}}}, "enabled_libraries"),
    ({"settings": {"hipaa": True}}, "makes no promise about HIPAA"),
    ({"settings": {"audit_log_level": "hipaa"}}, "audit_log_level"),
    ({"branch": {"name": ""}}, "branch.name"),
    ({"branch": {"name": "n" * 257}}, "branch.name"),
    ({"branch": {"role_name": ""}}, "role needs a name"),
    ({"branch": {"role_name": "r" * 64}}, "longer than 63 bytes"),
    ({"branch": {"role_name": "é" * 32}}, "longer than 63 bytes"),
    ({"branch": {"role_name": "bell\x07"}}, "control character"),
    ({"branch": {"database_name": ""}}, "database needs a name"),
    ({"branch": {"database_name": "d" * 64}}, "longer than 63 bytes"),
    ({"branch": {"database_name": "line\nfeed"}}, "control character"),
]


@pytest.mark.parametrize(("fields", "sentence"), SENTENCES)
async def test_a_bad_wish_is_refused_with_a_reason(caller: Caller, fields: Json, sentence: str) -> None:
    assert sentence in await caller.expect_project_error(**fields)
    assert await caller.list_project_names() == []


@pytest.mark.parametrize("name", ["postgres", "public", "none", "pg_monitor", "bough_admin", "Postgres", "PG_x"])
async def test_role_names_of_ours_and_of_postgres_are_reserved(caller: Caller, name: str) -> None:
    assert "is reserved" in await caller.expect_project_error(branch={"role_name": name})


@pytest.mark.parametrize("name", ["postgres", "template0", "template1", "pg_x", "bough_x", "TEMPLATE1", "replication"])
async def test_database_names_of_ours_and_of_postgres_are_reserved(caller: Caller, name: str) -> None:
    assert "is reserved" in await caller.expect_project_error(branch={"database_name": name})


async def test_a_version_that_is_not_installed_is_refused(api_app: ApiApp, caller: Caller) -> None:
    installed = api_app.services.engine.capabilities().installs
    absent = next(version for version in range(14, 19) if version not in installed)
    sentence = await caller.expect_project_error(pg_version=absent)
    assert f"Postgres {absent} is not installed here; available: " in sentence


async def test_an_audit_level_that_the_version_cannot_provide_is_refused(caller: Caller) -> None:
    """Postgres 14 does not write its log as JSON. No install is needed to know that."""
    created = await caller.create_ready_project()
    project_id = ProjectId(created)
    async with caller.api_app.platform.store.transaction() as rows:
        project = await rows.projects.get(project_id)
        assert project is not None
        await rows.projects.save(replace(project, pg_version=14))
    response = await caller.client.patch(
        f"/projects/{project_id}", json={"project": {"settings": {"audit_log_level": "base"}}}
    )
    assert response.status_code == 400
    assert "requires Postgres 15 or later; this project has Postgres 14" in response.json()["message"]
    assert "audit_log_level" not in (await caller.get_project(project_id))["settings"]


@pytest.mark.parametrize("timeout", [-1, 0, 60, 604800])
async def test_the_bounds_of_the_suspend_timeout_are_fine(caller: Caller, timeout: int) -> None:
    created = await caller.create_project(default_endpoint_settings={"suspend_timeout_seconds": timeout})
    assert created["endpoints"][0]["suspend_timeout_seconds"] == timeout


async def test_the_plan_limits_history_and_size(caller: Caller, stranger: Caller) -> None:
    assert (await caller.create_project(history_retention_seconds=2_592_000))["project"][
        "history_retention_seconds"
    ] == 2592000
    sentence = await stranger.expect_project_error(422, history_retention_seconds=7 * 86400 + 1)
    assert "the plan allows up to 604800" in sentence
    assert "8 CU that the plan allows" in await stranger.expect_project_error(autoscaling_limit_max_cu=8.25)


async def test_the_plan_limits_the_number_of_projects(api_app: ApiApp) -> None:
    plans = {**api_app.settings.model_dump()["plans"], "free": {"projects": 2}}
    caller = await create_caller(ApiApp(api_app.platform, plans=plans), plan="free")
    for _ in range(2):
        await caller.create_project()
    response = await caller.client.post("/projects", json={"project": {}})
    assert (response.status_code, response.json()["code"]) == (422, "PROJECTS_LIMIT_EXCEEDED")
    assert "2 projects" in response.json()["message"]
    deleted = (await caller.client.get("/projects")).json()["projects"][0]["id"]
    await caller.finish_operations(deleted)
    await caller.client.delete(f"/projects/{deleted}")
    await caller.create_project()
    await caller.finish_operations(deleted)
    recovery = await caller.client.post(f"/projects/{deleted}/recover")
    assert (recovery.status_code, recovery.json()["code"]) == (422, "PROJECTS_LIMIT_EXCEEDED")
