"""Changing a project: only the given fields change."""

from dataclasses import replace
from typing import Any

import httpx2
import pytest

from api.project_settings import ENDPOINT_SETTINGS, SETTINGS
from bough import clock
from bough.domain.endpoint import EndpointState, transition_endpoint
from bough.ids import ProjectId
from support.api_client import Caller, Json


async def _patch(caller: Caller, project_id: str, **fields: Any) -> httpx2.Response:
    return await caller.client.patch(f"/projects/{project_id}", json={"project": fields})


async def _changed(caller: Caller, project_id: str, **fields: Any) -> Json:
    response = await _patch(caller, project_id, **fields)
    assert response.status_code == 200, response.text
    shown: Json = response.json()["project"]
    assert shown["settings"] == (await caller.get_project(project_id))["settings"]
    return shown


async def _has_running_endpoint(caller: Caller, project_id: str) -> None:
    async with caller.api_app.platform.store.transaction() as rows:
        for endpoint in await rows.endpoints.list_in_project(ProjectId(project_id)):
            await rows.endpoints.save(transition_endpoint(endpoint, EndpointState.ACTIVE, clock.now()))


async def test_an_empty_change_changes_nothing_but_the_moment(caller: Caller) -> None:
    project_id = await caller.create_ready_project(name="same")
    before = await caller.get_project(project_id)
    after = await _changed(caller, project_id)
    assert after["updated_at"] > before["updated_at"]
    assert {**after, "updated_at": None} == {**before, "updated_at": None}


async def test_a_name_changes_alone(caller: Caller) -> None:
    project_id = await caller.create_ready_project(name="old", settings=SETTINGS)
    after = await _changed(caller, project_id, name="new 🌱")
    assert after["name"] == "new 🌱"
    assert after["settings"] == SETTINGS
    assert (await caller.get_project(project_id))["name"] == "new 🌱"


@pytest.mark.parametrize("name", ["", "n" * 257, 7])
async def test_a_name_that_will_not_do_is_refused(caller: Caller, name: object) -> None:
    project_id = await caller.create_ready_project(name="old")
    assert (await _patch(caller, project_id, name=name)).status_code == 400
    assert (await caller.get_project(project_id))["name"] == "old"


async def test_settings_that_are_named_change_and_the_others_stay(caller: Caller) -> None:
    project_id = await caller.create_ready_project(settings=SETTINGS)
    change = {"quota": {"written_data_bytes": 9}, "block_public_connections": False}
    after = await _changed(caller, project_id, settings=change)
    assert after["settings"]["quota"]["written_data_bytes"] == 9
    assert after["settings"]["block_public_connections"] is False
    for name in SETTINGS.keys() - change.keys():
        assert after["settings"][name] == SETTINGS[name]


@pytest.mark.parametrize("name", sorted(SETTINGS))
async def test_each_setting_can_be_given_later(caller: Caller, name: str) -> None:
    project_id = await caller.create_ready_project()
    assert (await _changed(caller, project_id, settings={name: SETTINGS[name]}))["settings"][name] == SETTINGS[name]


@pytest.mark.parametrize("name", sorted(ENDPOINT_SETTINGS))
async def test_each_endpoint_default_can_be_given_later(caller: Caller, name: str) -> None:
    project_id = await caller.create_ready_project(autoscaling_limit_max_cu=4)
    change = {name: ENDPOINT_SETTINGS[name]}
    after = (await _changed(caller, project_id, default_endpoint_settings=change))["default_endpoint_settings"]
    assert after[name] == ENDPOINT_SETTINGS[name]
    assert after["autoscaling_limit_max_cu"] == (2 if name == "autoscaling_limit_max_cu" else 4)


async def test_endpoint_defaults_are_checked_as_a_whole(caller: Caller) -> None:
    project_id = await caller.create_ready_project(autoscaling_limit_min_cu=1, autoscaling_limit_max_cu=2)
    response = await _patch(caller, project_id, default_endpoint_settings={"autoscaling_limit_min_cu": 3})
    assert response.status_code == 400
    assert "larger than" in response.json()["message"]
    assert (
        await _patch(caller, project_id, default_endpoint_settings={"suspend_timeout_seconds": 30})
    ).status_code == 400


async def test_settings_of_the_pooler_are_refused_before_anything_changes(caller: Caller) -> None:
    project_id = await caller.create_ready_project(name="old", default_endpoint_settings=ENDPOINT_SETTINGS)
    bad = {"pgbouncer_settings": {"default_pool_size": "5", "max_client_conn": "9"}, "suspend_timeout_seconds": 60}
    response = await _patch(caller, project_id, name="new", default_endpoint_settings=bad)
    assert response.status_code == 400
    assert "'max_client_conn', which is not supported. Supported settings: pool_mode, " in response.json()["message"]
    after = await caller.get_project(project_id)
    assert (after["name"], after["default_endpoint_settings"]) == ("old", ENDPOINT_SETTINGS)


async def test_old_settings_of_the_pooler_stand_in_nobodys_way(caller: Caller) -> None:
    """Rows may contain values that were stored before they were validated."""
    project_id = await caller.create_ready_project()
    old = {"pgbouncer_settings": {"max_client_conn": "many"}}
    async with caller.api_app.platform.store.transaction() as rows:
        project = await rows.projects.get(ProjectId(project_id))
        assert project is not None
        await rows.projects.save(
            replace(project, default_endpoint_settings={**project.default_endpoint_settings, **old})
        )
    change = {"suspend_timeout_seconds": 60}
    after = (await _changed(caller, project_id, default_endpoint_settings=change))["default_endpoint_settings"]
    assert (after["suspend_timeout_seconds"], after["pgbouncer_settings"]) == (60, old["pgbouncer_settings"])
    change_it = {"pgbouncer_settings": {"default_pool_size": "5"}}
    after = (await _changed(caller, project_id, default_endpoint_settings=change_it))["default_endpoint_settings"]
    assert after["pgbouncer_settings"] == {"default_pool_size": "5"}


async def test_history_changes_within_the_plan(caller: Caller, stranger: Caller) -> None:
    project_id = await caller.create_ready_project()
    for seconds in (0, 99, 2_592_000):
        response = await _patch(caller, project_id, history_retention_seconds=seconds)
        assert response.json()["project"]["history_retention_seconds"] == seconds
        (operation,) = response.json()["operations"]
        assert (operation["action"], operation["status"]) == ("apply_storage_config", "running")
        await caller.finish_operations(project_id)
    same = await _patch(caller, project_id, name="x", history_retention_seconds=2_592_000)
    assert (same.json()["project"]["history_retention_seconds"], same.json()["operations"]) == (2_592_000, [])
    theirs = await stranger.create_ready_project()
    assert (await _patch(stranger, theirs, history_retention_seconds=2_592_000)).status_code == 422


async def test_logical_replication_goes_on_and_stays_on(caller: Caller) -> None:
    project_id = await caller.create_ready_project()
    await _has_running_endpoint(caller, project_id)
    response = await _patch(caller, project_id, settings={"enable_logical_replication": True})
    (operation,) = response.json()["operations"]
    assert (operation["action"], operation["status"]) == ("apply_config", "running")
    await caller.finish_operations(project_id)
    off = await _patch(caller, project_id, settings={"enable_logical_replication": False})
    assert off.status_code == 400
    assert "cannot be turned off" in off.json()["message"]


async def test_an_audit_level_is_applied_to_running_computes_and_null_removes_it(caller: Caller) -> None:
    project_id = await caller.create_ready_project()
    await _has_running_endpoint(caller, project_id)
    levels: list[tuple[str | None, int]] = [("base", 1), ("base", 0), ("full", 1), (None, 1), (None, 0)]
    for level, count in levels:
        response = await _patch(caller, project_id, settings={"audit_log_level": level})
        assert [each["action"] for each in response.json()["operations"]] == ["apply_config"] * count
        assert response.json()["project"]["settings"].get("audit_log_level") == level
        await caller.finish_operations(project_id)
    audit = (await caller.client.get("/bough/audit", params={"project_id": project_id})).json()["audit"]
    details = [line["details"].get("audit_log_level") for line in reversed(audit) if line["action"] == "update_project"]
    assert details == ["base", None, "full", "none", None]


async def test_a_change_that_no_compute_must_hear_of_has_no_operation(caller: Caller) -> None:
    project_id = await caller.create_ready_project()
    await _has_running_endpoint(caller, project_id)
    assert (await _patch(caller, project_id, name="new")).json()["operations"] == []


async def test_what_was_measured_is_still_shown(caller: Caller) -> None:
    project_id = await caller.create_ready_project()
    async with caller.api_app.platform.store.transaction() as rows:
        (branch,) = await rows.branches.list_in_project(ProjectId(project_id))
        await rows.branches.save(replace(branch, logical_size=12345))
    assert (await _changed(caller, project_id, name="big"))["synthetic_storage_size"] == 12345


async def test_inside_a_group_what_is_not_named_stays(caller: Caller) -> None:
    project_id = await caller.create_ready_project(
        settings={"allowed_ips": {"ips": ["10.0.0.1"], "protected_branches_only": True}}
    )
    after = await _changed(caller, project_id, settings={"allowed_ips": {"ips": ["10.0.0.2"]}})
    assert after["settings"]["allowed_ips"] == {"ips": ["10.0.0.2"], "protected_branches_only": True}
