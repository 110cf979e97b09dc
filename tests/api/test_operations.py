"""Operations as clients see them: progress, result and retry time."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bough import clock
from bough.domain.operation import Operation, OperationStatus
from bough.ids import OperationId
from support.api_client import Caller, Json


async def _listed(caller: Caller, project_id: str) -> list[Json]:
    response = await caller.client.get(f"/projects/{project_id}/operations")
    assert response.status_code == 200, response.text
    listed: list[Json] = response.json()["operations"]
    return listed


async def _edited(caller: Caller, operation_id: str, **fields: Any) -> Json:
    """Returns the operation's view after a change of its row."""
    async with caller.api_app.platform.store.transaction() as rows:
        operation = await rows.operations.get(OperationId(operation_id))
        assert isinstance(operation, Operation)
        await rows.operations.save(replace(operation, **fields))
    path = f"/projects/{operation.project_id}/operations/{operation_id}"
    shown: Json = (await caller.client.get(path)).json()["operation"]
    return shown


async def test_the_list_is_newest_first_and_holds_what_creation_said(caller: Caller) -> None:
    created = await caller.create_project()
    listed = await _listed(caller, created["project"]["id"])
    assert listed == created["operations"][::-1]


async def test_each_can_be_asked_for(caller: Caller) -> None:
    created = await caller.create_project()
    for operation in created["operations"]:
        response = await caller.client.get(f"/projects/{created['project']['id']}/operations/{operation['id']}")
        assert response.json() == {"operation": operation}


async def test_an_operation_of_another_project_is_not_found(caller: Caller, stranger: Caller) -> None:
    created, other = await caller.create_project(), await caller.create_project()
    theirs = await stranger.create_project()
    absent = "00000000-0000-4000-8000-000000000000"
    messages = set()
    for operation_id in (other["operations"][0]["id"], theirs["operations"][0]["id"], absent):
        response = await caller.client.get(f"/projects/{created['project']['id']}/operations/{operation_id}")
        assert response.status_code == 404
        messages.add(response.json()["message"])
    assert len(messages) == 1


@pytest.mark.parametrize("operation_id", ["not-a-uuid", "1", "00000000-0000-4000-8000-00000000000g"])
async def test_what_is_no_uuid_is_refused(caller: Caller, operation_id: str) -> None:
    created = await caller.create_project()
    response = await caller.client.get(f"/projects/{created['project']['id']}/operations/{operation_id}")
    assert response.status_code == 400


async def test_a_finished_operation_tells_how_long_it_took(caller: Caller) -> None:
    created = await caller.create_project()
    began = clock.now()
    shown = await _edited(
        caller,
        created["operations"][0]["id"],
        status=OperationStatus.FINISHED,
        created_at=began,
        updated_at=began + timedelta(seconds=9),
        ended_at=began + timedelta(seconds=2.5),
    )
    assert (shown["status"], shown["total_duration_ms"]) == ("finished", 2500)
    assert "error" not in shown
    assert "retry_at" not in shown


async def test_a_failure_has_its_sentence(caller: Caller) -> None:
    created = await caller.create_project()
    shown = await _edited(
        caller,
        created["operations"][0]["id"],
        status=OperationStatus.FAILED,
        failures=5,
        error="The disk is full.",
        ended_at=clock.now(),
    )
    assert (shown["status"], shown["error"], shown["failures_count"]) == ("failed", "The disk is full.", 5)
    assert "retry_at" not in shown


async def test_work_that_will_be_tried_again_tells_when(caller: Caller) -> None:
    created = await caller.create_project()
    operation_id = created["operations"][0]["id"]
    due = clock.now() + timedelta(seconds=30)
    shown = await _edited(caller, operation_id, failures=1, error="It was slow.", due_at=due, lease_until=None)
    assert (shown["status"], shown["failures_count"]) == ("running", 1)
    assert shown["retry_at"].startswith(due.isoformat()[:19])


@pytest.mark.parametrize("status", OperationStatus)
async def test_every_status_can_be_shown(caller: Caller, status: OperationStatus) -> None:
    created = await caller.create_project()
    assert (await _edited(caller, created["operations"][0]["id"], status=status))["status"] == status
