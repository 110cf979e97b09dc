"""Conflicting requests on one project: the second waits for a moment, then gets an error to retry."""

import asyncio
from typing import Any

import pytest

from bough.ids import ProjectId
from support.api_app import ApiApp
from support.api_client import Caller

CHANGES: list[tuple[str, str, Any]] = [
    ("PATCH", "", {"project": {"name": "new"}}),
    ("DELETE", "", None),
]


async def _is_blocked(task: "asyncio.Task[Any]") -> bool:
    """Waits until the request is blocked by the running operation."""
    for _ in range(5):
        await asyncio.sleep(0.02)
    return not task.done()


@pytest.mark.parametrize(("method", "rest", "body"), CHANGES)
async def test_work_in_the_way_is_423_and_safe_to_retry(caller: Caller, method: str, rest: str, body: Any) -> None:
    project_id = (await caller.create_project(name="busy"))["project"]["id"]
    response = await caller.client.request(method, f"/projects/{project_id}{rest}", json=body)
    assert response.status_code == 423, response.text
    assert int(response.headers["retry-after"]) >= 1
    assert "Nothing was changed" in response.json()["message"]
    assert (await caller.get_project(project_id))["name"] == "busy"
    await caller.finish_operations(project_id)
    assert (await caller.client.request(method, f"/projects/{project_id}{rest}", json=body)).status_code == 200


@pytest.mark.parametrize(("method", "rest", "body"), CHANGES)
async def test_a_request_succeeds_when_the_work_ends_in_time(
    api_app: ApiApp, caller: Caller, method: str, rest: str, body: Any
) -> None:
    project_id = (await caller.create_project())["project"]["id"]
    async with caller.client_for(ApiApp(api_app.platform, hold_seconds=60)) as client:
        request = asyncio.create_task(client.request(method, f"/projects/{project_id}{rest}", json=body))
        assert await _is_blocked(request)
        await caller.finish_operations(project_id)
        assert (await request).status_code == 200


async def test_while_one_request_is_held_others_are_answered(api_app: ApiApp, caller: Caller) -> None:
    project_id = (await caller.create_project(name="busy"))["project"]["id"]
    async with caller.client_for(ApiApp(api_app.platform, hold_seconds=60)) as client:
        deletion = asyncio.create_task(client.delete(f"/projects/{project_id}"))
        assert await _is_blocked(deletion)
        assert (await client.get(f"/projects/{project_id}")).status_code == 200
        assert (await client.post("/projects", json={"project": {"name": "other"}})).status_code == 201
        await caller.finish_operations(project_id)
        assert (await deletion).status_code == 200
    assert await caller.list_project_names() == ["other"]


async def test_recovery_waits_for_the_computes_to_stop(caller: Caller) -> None:
    project_id = await caller.create_ready_project()
    await caller.client.delete(f"/projects/{project_id}")
    assert (await caller.client.post(f"/projects/{project_id}/recover")).status_code == 423
    await caller.finish_operations(project_id)
    assert (await caller.client.post(f"/projects/{project_id}/recover")).status_code == 200


async def test_of_two_deletions_at_once_one_wins(caller: Caller) -> None:
    project_id = await caller.create_ready_project()
    answers = await asyncio.gather(*(caller.client.delete(f"/projects/{project_id}") for _ in range(4)))
    assert sorted(response.status_code for response in answers)[0] == 200
    assert {response.status_code for response in answers} <= {200, 404, 423}
    assert sum(response.status_code == 200 for response in answers) == 1
    async with caller.api_app.platform.store.read() as rows:
        assert len(await rows.operations.list_open(ProjectId(project_id))) == 1


async def _patch_in_parallel(caller: Caller, project_id: str, changes: list[dict[str, Any]]) -> list[int]:
    requests = (caller.client.patch(f"/projects/{project_id}", json={"project": each}) for each in changes)
    return [response.status_code for response in await asyncio.gather(*requests)]


async def test_changes_at_the_same_time_lose_nothing(caller: Caller) -> None:
    project_id = await caller.create_ready_project()
    changes: list[dict[str, Any]] = [
        {"history_retention_seconds": 60},
        {"name": "together"},
        {"settings": {"block_vpc_connections": True}},
        {"settings": {"quota": {"written_data_bytes": 5}}},
    ]
    retention, *others = await _patch_in_parallel(caller, project_id, changes)
    assert retention == 200  # it starts an operation, which may block the other changes
    assert set(others) <= {200, 423}
    await caller.finish_operations(project_id)
    blocked = [change for change, status in zip(changes[1:], others, strict=True) if status == 423]
    assert set(await _patch_in_parallel(caller, project_id, blocked)) <= {200}
    shown = await caller.get_project(project_id)
    assert (shown["name"], shown["history_retention_seconds"]) == ("together", 60)
    assert (shown["settings"]["block_vpc_connections"], shown["settings"]["quota"]) == (True, {"written_data_bytes": 5})
