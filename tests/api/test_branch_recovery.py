"""Recovery of deleted branches: what is recovered, for how long, and within which limits."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from api.project_client import READ_ONLY, READ_WRITE, ProjectClient, create_project_client, operation_actions
from bough import clock
from bough.control.branches import deletion
from bough.domain.branch import BranchState
from bough.domain.endpoint import EndpointState
from bough.ids import BranchId, EndpointId
from bough.store.audit import AuditQuery
from bough.tasks.purge_deleted import PurgeDeleted
from support.api_app import ApiApp
from support.api_client import Caller, Json

DAY = timedelta(days=1)


async def gone(tree: ProjectClient, name: str = "dev", **fields: Any) -> Json:
    """Creates and deletes a branch, and returns the response that created it."""
    created = await tree.create_branch(name, **fields)
    await tree.request_and_finish("DELETE", tree.branch_path(created["branch"]["id"]))
    return created


async def recovered(tree: ProjectClient, created: Json) -> Json:
    return await tree.request("POST", f"{tree.branch_path(created['branch']['id'])}/recover")


async def refused(tree: ProjectClient, created: Json, status: int) -> str:
    return await tree.expect_error(status, "POST", f"{tree.branch_path(created['branch']['id'])}/recover")


def later(monkeypatch: pytest.MonkeyPatch, by: timedelta) -> None:
    moment = clock.now() + by
    monkeypatch.setattr(clock, "now", lambda: moment)


async def test_a_deletion_stops_computes_and_tells_until_when_it_can_be_taken_back(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await tree.create_branch("dev", endpoints=(READ_WRITE, READ_ONLY))
    response = await tree.request("DELETE", tree.branch_path(created["branch"]["id"]))
    assert operation_actions(response) == ["suspend_compute", "suspend_compute"]
    by_type = {each["id"]: each["type"] for each in created["endpoints"]}
    assert [by_type[each["endpoint_id"]] for each in response["operations"]] == ["read_only", "read_write"]
    recovery = response["branch"]["recovery"]
    deleted, until = (datetime.fromisoformat(recovery[name]) for name in ("deleted_at", "recoverable_until"))
    assert (until - deleted, recovery["deletion_method"]) == (DAY, "user")
    without = await tree.create_branch("bare")
    assert operation_actions(await tree.request("DELETE", tree.branch_path(without["branch"]["id"]))) == []


async def test_it_comes_back_with_all_that_it_had(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await tree.create_branch("dev", endpoints=(READ_WRITE, READ_ONLY))
    path = tree.branch_path(created["branch"]["id"])
    await tree.request_and_finish("POST", f"{path}/roles", {"role": {"name": "app"}}, status=201)
    before = {kind: await tree.request("GET", f"{path}/{kind}") for kind in ("roles", "databases", "endpoints")}
    uri = f"{tree.path}/connection_uri"
    requested = {"branch_id": created["branch"]["id"], "database_name": "neondb", "role_name": "neondb_owner"}
    string = await tree.request("GET", uri, **requested)
    shown = await tree.get_branch(created["branch"]["id"])
    await tree.request_and_finish("DELETE", path)

    response = await recovered(tree, created)
    assert {**response["branch"], "updated_at": ""} == {**shown, "updated_at": ""}
    assert [each["id"] for each in response["endpoints"]] == [each["id"] for each in created["endpoints"]]
    assert "recovery" not in response["branch"]
    for kind in ("roles", "databases"):
        assert await tree.request("GET", f"{path}/{kind}") == before[kind]
    assert await tree.request("GET", uri, **requested) == string
    assert sorted(await tree.list_branch_names()) == ["dev", "main"]


async def test_what_was_deleted_before_it_stays_so(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await tree.create_branch("dev", endpoints=(READ_WRITE, READ_ONLY))
    first, second = (each["id"] for each in created["endpoints"])
    await tree.request_and_finish("DELETE", f"{tree.path}/endpoints/{second}")
    await tree.request_and_finish("DELETE", tree.branch_path(created["branch"]["id"]))
    assert [each["id"] for each in (await recovered(tree, created))["endpoints"]] == [first]
    await tree.request("GET", f"{tree.path}/endpoints/{second}", status=404)


async def test_it_may_go_and_come_back_again_and_again(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await tree.create_branch("dev", endpoints=(READ_WRITE,))
    for _ in range(3):
        await tree.request_and_finish("DELETE", tree.branch_path(created["branch"]["id"]))
        assert len((await recovered(tree, created))["endpoints"]) == 1
    assert "not deleted" in await refused(tree, created, 400)


async def test_one_whose_endpoints_ran_comes_back_asleep(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await tree.create_branch("dev", endpoints=(READ_WRITE,))
    store = caller.api_app.services.store
    async with store.transaction() as rows:
        endpoint = await rows.endpoints.get(EndpointId(created["endpoints"][0]["id"]))
        assert endpoint
        await rows.endpoints.save(replace(endpoint, state=EndpointState.ACTIVE, pending_state=None))
    await tree.request_and_finish("DELETE", tree.branch_path(created["branch"]["id"]))
    [back] = (await recovered(tree, created))["endpoints"]
    assert back["current_state"] == "idle"
    assert "pending_state" not in back


async def test_its_name_may_be_taken_meanwhile(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await gone(tree)
    other = await tree.create_branch("dev")
    assert "Rename or delete that one" in await refused(tree, created, 409)
    await tree.request("PATCH", tree.branch_path(other["branch"]["id"]), {"branch": {"name": "other"}})
    assert (await recovered(tree, created))["branch"]["name"] == "dev"


async def test_a_parent_comes_back_before_its_child(caller: Caller) -> None:
    tree = await create_project_client(caller)
    parent = await tree.create_branch("parent")
    child = await gone(tree, "child", parent_id=parent["branch"]["id"])
    await tree.request_and_finish("DELETE", tree.branch_path(parent["branch"]["id"]))
    assert "Recover its parent first" in await refused(tree, child, 422)
    await recovered(tree, parent)
    assert (await recovered(tree, child))["branch"]["parent_id"] == parent["branch"]["id"]


async def test_a_child_of_what_is_gone_for_good_cannot_come_back(caller: Caller) -> None:
    tree = await create_project_client(caller)
    parent = await tree.create_branch("parent")
    child = await gone(tree, "child", parent_id=parent["branch"]["id"])
    async with caller.api_app.services.store.transaction() as rows:
        row = await tree.get_branch_row(parent["branch"]["id"])
        await deletion.delete_branch_rows(rows, row, method="user", recoverable_seconds=0)
    assert "its parent 'parent' was removed" in await refused(tree, child, 422)


async def test_after_its_time_it_cannot_come_back(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = await create_project_client(caller)
    created = await gone(tree)
    later(monkeypatch, DAY)
    assert "its data was removed" in await refused(tree, created, 422)


async def test_what_never_was_or_is_another_projects_is_not_found(caller: Caller) -> None:
    tree, other = await create_project_client(caller), await create_project_client(caller)
    created = await gone(other)
    assert "could not be found" in await refused(tree, created, 404)
    await tree.request("POST", f"{tree.branch_path(BranchId.new())}/recover", status=404)
    await tree.request("POST", f"{tree.branch_path('x' * 61)}/recover", status=400)


async def test_an_end_that_has_passed_is_forgotten(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = await create_project_client(caller)
    now = clock.now()
    soon = await gone(tree, "soon", expires_at=(now + timedelta(hours=1)).isoformat())
    far = await gone(tree, "far", expires_at=(now + timedelta(hours=100)).isoformat())
    later(monkeypatch, timedelta(hours=2))
    assert "expires_at" not in (await recovered(tree, soon))["branch"]
    assert (await recovered(tree, far))["branch"]["expires_at"] == far["branch"]["expires_at"]


async def test_it_needs_the_room_that_a_new_one_needs(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await gone(tree, endpoints=(READ_WRITE,))
    plans = caller.api_app.settings.plans
    for limit, code in (("branches", "BRANCHES_LIMIT_EXCEEDED"), ("endpoints", "ENDPOINTS_LIMIT_EXCEEDED")):
        small = {name: {**plan.model_dump(), limit: 1} for name, plan in plans.items()}
        async with ApiApp(caller.api_app.platform, plans=small).client(caller.token) as client:
            response = await client.post(f"{tree.branch_path(created['branch']['id'])}/recover")
        assert (response.status_code, response.json()["code"]) == (422, code)
    await recovered(tree, created)


async def test_an_archived_branch_comes_back_archived(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await tree.create_branch("dev")
    async with caller.api_app.services.store.transaction() as rows:
        await rows.branches.save(
            replace(await tree.get_branch_row(created["branch"]["id"]), state=BranchState.ARCHIVED)
        )
    await tree.request_and_finish("DELETE", tree.branch_path(created["branch"]["id"]))
    assert (await recovered(tree, created))["branch"]["current_state"] == "archived"


async def test_who_deleted_and_recovered_it_is_written_down(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await gone(tree)
    await recovered(tree, created)
    async with caller.api_app.services.store.read() as rows:
        lines = await rows.audit.page(AuditQuery(project_id=tree.creation_response["project"]["id"]), 2, None)
    assert [(line.action, line.resource) for line in lines] == [
        ("recover_project_branch", created["branch"]["id"]),
        ("delete_project_branch", created["branch"]["id"]),
    ]


async def test_where_nothing_can_be_recovered_the_data_goes_at_once(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await tree.create_branch("dev", endpoints=(READ_WRITE,))
    async with ApiApp(caller.api_app.platform, recoverable_branch_seconds=0).client(caller.token) as client:
        response = (await client.delete(tree.branch_path(created["branch"]["id"]))).json()
    assert operation_actions(response) == ["delete_timeline"]
    recovery = response["branch"]["recovery"]
    assert recovery["recoverable_until"] == recovery["deleted_at"]
    await tree.finish_operations()
    assert "its data was removed" in await refused(tree, created, 422)


async def test_when_its_time_is_over_the_task_takes_its_data(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = await create_project_client(caller)
    created = await gone(tree, endpoints=(READ_WRITE,))
    task = PurgeDeleted(caller.api_app.services.store, caller.api_app.services.queue)
    await task.run()
    assert (await tree.get_branch_row(created["branch"]["id"])).recoverable_until is not None
    later(monkeypatch, DAY)
    assert "deleted branches" in await task.run()
    listed = await tree.request("GET", f"{tree.path}/operations")
    assert (operation_actions(listed)[0], listed["operations"][0]["branch_id"]) == (
        "delete_timeline",
        created["branch"]["id"],
    )
    assert (await tree.get_branch_row(created["branch"]["id"])).recoverable_until is None
    async with caller.api_app.services.store.read() as rows:
        question = AuditQuery(project_id=tree.creation_response["project"]["id"], action="purge_branch")
        [line] = await rows.audit.page(question, 2, None)
    assert (line.actor_kind, line.resource, line.details) == ("platform", created["branch"]["id"], {"name": "dev"})
