"""Deleting and recovering a project."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from bough import clock
from bough.ids import ProjectId
from support.api_app import ApiApp
from support.api_client import Caller


async def _deleted(caller: Caller, name: str = "gone") -> str:
    project_id = await caller.create_ready_project(name=name)
    response = await caller.client.delete(f"/projects/{project_id}")
    assert response.status_code == 200, response.text
    assert response.json()["project"]["id"] == project_id
    await caller.finish_operations(project_id)
    return project_id


async def test_a_deleted_project_is_gone_from_everywhere(caller: Caller) -> None:
    project_id = await _deleted(caller)
    assert await caller.list_project_names() == []
    for method, rest in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("GET", "/operations")):
        response = await caller.client.request(method, f"/projects/{project_id}{rest}", json={"project": {}})
        assert response.status_code == 404, response.text


async def test_deletion_stops_the_computes_and_keeps_the_data(caller: Caller) -> None:
    project_id = await _deleted(caller)
    operations = await caller.api_app.platform.list_operations(project_id)
    assert [each.stored_action for each in operations] == ["create_timeline", "start_compute", "suspend_compute"]


async def test_recovery_brings_all_of_it_back(caller: Caller) -> None:
    created = await caller.create_project(name="precious", history_retention_seconds=77)
    project_id = created["project"]["id"]
    await caller.finish_operations(project_id)
    before = await caller.get_project(project_id)
    branches = (await caller.client.get(f"/projects/{project_id}/branches")).json()["branches"]
    assert branches[0]["created_by"] == created["branch"]["created_by"]
    await caller.client.delete(f"/projects/{project_id}")
    await caller.finish_operations(project_id)
    response = await caller.client.post(f"/projects/{project_id}/recover")
    assert response.status_code == 200, response.text
    assert response.json()["branches"] == branches
    after = await caller.get_project(project_id)
    assert {**after, "updated_at": None} == {**before, "updated_at": None}
    assert await caller.list_project_names() == ["precious"]
    assert await caller.list_project_names(recoverable=True) == []
    assert [each.stored_action for each in await caller.api_app.platform.list_operations(project_id)][
        -1
    ] == "start_compute"


async def test_a_living_project_has_nothing_to_recover(caller: Caller) -> None:
    project_id = await caller.create_ready_project(name="living")
    response = await caller.client.post(f"/projects/{project_id}/recover")
    assert response.status_code == 400
    assert "not deleted" in response.json()["message"]


async def test_a_project_can_be_deleted_and_recovered_again(caller: Caller) -> None:
    project_id = await _deleted(caller)
    for _ in range(2):
        assert (await caller.client.post(f"/projects/{project_id}/recover")).status_code == 200
        await caller.finish_operations(project_id)
        assert (await caller.client.delete(f"/projects/{project_id}")).status_code == 200
        await caller.finish_operations(project_id)


async def test_after_seven_days_it_is_too_late(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    project_id = await _deleted(caller)
    response = await caller.client.get("/projects", params={"recoverable": True})
    (shown,) = response.json()["projects"]
    until = datetime.fromisoformat(shown["recoverable_until"])
    assert until - datetime.fromisoformat(shown["deleted_at"]) == timedelta(days=7)
    monkeypatch.setattr(clock, "now", lambda: until)
    late = await caller.client.post(f"/projects/{project_id}/recover")
    absent = await caller.client.post("/projects/no-such-project/recover")
    assert (late.status_code, late.json()["message"]) == (404, absent.json()["message"])
    assert await caller.list_project_names(recoverable=True) == []
    monkeypatch.setattr(clock, "now", lambda: until - timedelta(seconds=1))
    assert await caller.list_project_names(recoverable=True) == ["gone"]
    assert (await caller.client.post(f"/projects/{project_id}/recover")).status_code == 200


async def test_the_window_is_a_setting(api_app: ApiApp, caller: Caller) -> None:
    project_id = await caller.create_ready_project()
    async with caller.client_for(ApiApp(api_app.platform, recoverable_seconds=0)) as client:
        assert (await client.delete(f"/projects/{project_id}")).status_code == 200
        await caller.finish_operations(project_id)
        assert (await client.post(f"/projects/{project_id}/recover")).status_code == 404


async def test_a_protected_branch_keeps_its_project(caller: Caller) -> None:
    project_id = await caller.create_ready_project(name="kept")
    async with caller.api_app.platform.store.transaction() as rows:
        (branch,) = await rows.branches.list_in_project(ProjectId(project_id))
        await rows.branches.save(replace(branch, is_protected=True))
    response = await caller.client.delete(f"/projects/{project_id}")
    assert response.status_code == 422
    assert "protected branch" in response.json()["message"]
    assert await caller.list_project_names() == ["kept"]


async def test_nobody_else_deletes_or_recovers_it(caller: Caller, stranger: Caller) -> None:
    living, deleted = await caller.create_ready_project(name="living"), await _deleted(caller)
    assert (await stranger.client.delete(f"/projects/{living}")).status_code == 404
    assert (await stranger.client.post(f"/projects/{deleted}/recover")).status_code == 404
    assert await stranger.list_project_names(recoverable=True) == []
    assert await caller.list_project_names() == ["living"]
