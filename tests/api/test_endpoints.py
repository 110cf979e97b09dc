"""Endpoints: get, start, suspend, restart; access rights and errors."""

from dataclasses import replace
from typing import Any

import pytest

from bough.domain.endpoint import EndpointState
from bough.domain.locks import LockLevel
from bough.ids import EndpointId, ProjectId
from bough.operations.action import ActionType, NewOperation
from bough.operations.actions.start_compute import StartCompute
from bough.operations.actions.suspend_compute import SuspendCompute
from support.api_client import Caller


async def has_endpoint(caller: Caller, state: EndpointState = EndpointState.IDLE, **changes: Any) -> str:
    """Returns the path of an endpoint in that state, in a project without open operations."""
    created = await caller.create_project()
    project_id, endpoint_id = created["project"]["id"], created["endpoints"][0]["id"]
    await caller.finish_operations(project_id)
    async with caller.api_app.services.store.transaction() as rows:
        endpoint = await rows.endpoints.get(EndpointId(endpoint_id))
        assert endpoint is not None
        await rows.endpoints.save(replace(endpoint, state=state, pending_state=None, **changes))
    return f"/projects/{project_id}/endpoints/{endpoint_id}"


async def test_one_is_shown_alone_and_in_the_list(caller: Caller) -> None:
    path = await has_endpoint(caller)
    alone = (await caller.client.get(path)).json()["endpoint"]
    listed = (await caller.client.get(path.rpartition("/")[0])).json()["endpoints"]
    assert listed == [alone]
    assert (alone["current_state"], "pending_state" in alone) == ("idle", False)


@pytest.mark.parametrize(
    ("verb", "before", "pending", "actions"),
    [
        ("start", EndpointState.IDLE, "active", ["start_compute"]),
        ("start", EndpointState.ACTIVE, None, ["start_compute"]),
        ("suspend", EndpointState.ACTIVE, "idle", ["suspend_compute"]),
        ("suspend", EndpointState.IDLE, None, ["suspend_compute"]),
        ("restart", EndpointState.ACTIVE, "idle", ["suspend_compute", "start_compute"]),
        ("restart", EndpointState.IDLE, None, ["suspend_compute", "start_compute"]),
    ],
)
async def test_a_verb_answers_with_the_endpoint_and_its_work(
    caller: Caller, verb: str, before: EndpointState, pending: str | None, actions: list[str]
) -> None:
    path = await has_endpoint(caller, before)
    response = await caller.client.post(f"{path}/{verb}")
    assert response.status_code == 200, response.text
    shown = response.json()
    assert (shown["endpoint"]["current_state"], shown["endpoint"].get("pending_state")) == (before, pending)
    assert [operation["action"] for operation in shown["operations"]] == actions
    assert shown["operations"][0]["status"] == "running"
    assert {operation["endpoint_id"] for operation in shown["operations"]} == {path.rpartition("/")[2]}


@pytest.mark.parametrize("verb", ["start", "restart"])
async def test_a_disabled_one_is_not_started(caller: Caller, verb: str) -> None:
    path = await has_endpoint(caller, disabled=True)
    response = await caller.client.post(f"{path}/{verb}")
    assert response.status_code == 412
    assert "is disabled. Enable it" in response.json()["message"]
    assert (await caller.client.post(f"{path}/suspend")).status_code == 200


@pytest.mark.parametrize("verb", ["", "/start", "/suspend", "/restart"])
async def test_a_stranger_and_a_wrong_id_get_the_same_answer(caller: Caller, stranger: Caller, verb: str) -> None:
    path = await has_endpoint(caller)
    nowhere = f"{path.rpartition('/')[0]}/{EndpointId.new()}"
    method = "POST" if verb else "GET"
    assert (await stranger.client.request(method, path + verb)).status_code == 404
    response = await caller.client.request(method, nowhere + verb)
    assert response.status_code == 404
    assert "endpoint could not be found" in response.json()["message"]


async def test_one_of_another_project_is_not_found(caller: Caller) -> None:
    own, other = await has_endpoint(caller), await has_endpoint(caller)
    crossed = f"{own.rpartition('/')[0]}/{other.rpartition('/')[2]}"
    assert (await caller.client.get(crossed)).status_code == 404
    assert (await caller.client.post(f"{crossed}/start")).status_code == 404


async def test_work_that_is_in_the_way_is_423(caller: Caller) -> None:
    path = await has_endpoint(caller)
    assert (await caller.client.post(f"{path}/start")).status_code == 200
    response = await caller.client.post(f"{path}/suspend")
    assert response.status_code == 423
    assert response.headers["Retry-After"]


async def test_an_idempotency_key_starts_it_once(caller: Caller) -> None:
    path = await has_endpoint(caller)
    headers = {"Idempotency-Key": "once"}
    first, second = [await caller.client.post(f"{path}/start", headers=headers) for _ in range(2)]
    assert first.json() == second.json()
    assert second.headers["Idempotency-Replayed"] == "true"


async def test_what_was_used_is_shown_with_the_project(caller: Caller) -> None:
    path = await has_endpoint(caller, EndpointState.ACTIVE)
    _, _, project_id, _, endpoint_id = path.split("/")
    async with caller.api_app.services.store.transaction() as rows:
        endpoint = await rows.endpoints.get(EndpointId(endpoint_id))
        assert endpoint is not None
        await rows.usage.start_metering(endpoint.id, endpoint.created_at)
        await rows.usage.stop_metering(endpoint, endpoint.created_at.replace(year=endpoint.created_at.year + 1))
        await rows.usage.add_cpu(endpoint.id, endpoint.created_at, 5.5)
        await rows.usage.add_written(endpoint.id, 7)
    shown = await caller.get_project(project_id)
    year = 365 * 86400
    assert shown["active_time_seconds"] in (year, year + 86400)
    assert shown["compute_time_seconds"] == shown["active_time_seconds"] / 4
    assert (shown["cpu_used_sec"], shown["written_data_bytes"]) == (6, 7)
    listed = (await caller.client.get("/projects")).json()["projects"][0]
    assert (listed["active_time"], listed["cpu_used_sec"]) == (shown["active_time_seconds"], 6)


def test_the_verbs_reach_no_further_than_their_endpoint() -> None:
    actions: tuple[ActionType, ...] = (StartCompute, SuspendCompute)
    for action in actions:
        operation = NewOperation(action, ProjectId("p"), endpoint_id=EndpointId("e"))
        assert operation.lock.level is LockLevel.ENDPOINT
