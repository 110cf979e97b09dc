"""Branches: create with the parent's data, get, change, delete."""

from typing import Any

import pytest

from api.project_client import (
    READ_ONLY,
    READ_WRITE,
    ProjectClient,
    create_project_client,
    operation_actions,
    operation_statuses,
)
from bough.ids import BranchId
from support.api_client import Caller, Json

ANNOTATIONS = {"ticket": "42", "grün": "🌿", "": ""}


async def _created(tree: ProjectClient, body: Any = None) -> Json:
    created = await tree.request("POST", tree.branches_path, body, status=201)
    await tree.finish_operations()
    return created


@pytest.mark.parametrize("body", [None, {}, {"branch": {}}, {"endpoints": []}, {"branch": {}, "unknown": 1}])
async def test_who_says_nothing_gets_a_branch_of_the_default(caller: Caller, body: Any) -> None:
    tree = await create_project_client(caller)
    created = await _created(tree, body)
    branch = created["branch"]
    assert (branch["parent_id"], branch["name"], branch["project_id"]) == (tree.main_branch_id, branch["id"], tree.id)
    assert (branch["default"], branch["primary"], branch["protected"]) == (False,) * 3
    assert (branch["current_state"], branch["pending_state"]) == ("init", "ready")
    assert (branch["init_source"], branch["creation_source"]) == ("parent-data", "api")
    assert {"expires_at", "ttl_interval_seconds", "parent_lsn", "logical_size"}.isdisjoint(branch)
    assert (created["endpoints"], operation_actions(created)) == ([], ["create_branch"])
    assert "connection_uris" not in created


async def test_the_default_is_the_branch_that_is_it_now(caller: Caller) -> None:
    tree = await create_project_client(caller)
    other = (await tree.create_branch())["branch"]["id"]
    await tree.request("POST", f"{tree.branch_path(other)}/set_as_default")
    assert (await tree.create_branch())["branch"]["parent_id"] == other
    assert (await tree.create_branch(parent_id=tree.main_branch_id))["branch"]["parent_id"] == tree.main_branch_id


async def test_what_made_it_is_what_is_shown_of_it(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await tree.create_branch("dev", init_source="schema-only", protected=True)
    assert (created["branch"]["init_source"], created["branch"]["protected"]) == ("schema-only", True)
    assert await tree.get_branch(created["branch"]["id"]) == created["branch"]
    assert created["branch"] in (await tree.request("GET", tree.branches_path))["branches"]
    assert created["branch"]["created_by"]["name"] == caller.user.name


@pytest.mark.parametrize("name", ["a", "x" * 256, "feature/grün 🌿", "%_\\'\"; drop table", " ", "main ", "MAIN", "\n"])
async def test_any_name_is_kept_as_it_is(caller: Caller, name: str) -> None:
    tree = await create_project_client(caller)
    branch_id = (await tree.create_branch(name))["branch"]["id"]
    assert (await tree.get_branch(branch_id))["name"] == name
    assert await tree.list_branch_names() == [name, "main"]


async def test_endpoints_come_when_they_are_asked_for(caller: Caller) -> None:
    tree = await create_project_client(caller, default_endpoint_settings={"suspend_timeout_seconds": 600})
    sized = {"autoscaling_limit_min_cu": 0.5, "autoscaling_limit_max_cu": 2, "suspend_timeout_seconds": 90}
    kept = {"settings": {"pg_settings": {"work_mem": "9MB"}}, "provisioner": "k8s-pod"}
    created = await tree.begin_branch(endpoints=({**READ_WRITE, **sized}, {**READ_ONLY, **kept}, READ_ONLY))
    assert operation_actions(created) == ["create_branch", "start_compute", "start_compute", "start_compute"]
    assert operation_statuses(created) == ["running", "scheduling", "scheduling", "scheduling"]
    branch_id = created["branch"]["id"]
    assert {operation["branch_id"] for operation in created["operations"]} == {branch_id}
    assert [each.get("endpoint_id") for each in created["operations"]] == [
        None,
        *(each["id"] for each in created["endpoints"]),
    ]
    assert [each["type"] for each in created["endpoints"]] == ["read_write", "read_only", "read_only"]
    first, second, third = created["endpoints"]
    assert first | sized == first
    assert second | kept == second
    assert third["suspend_timeout_seconds"] == 600
    for each in created["endpoints"]:
        assert (each["branch_id"], each["current_state"], each["pending_state"]) == (branch_id, "init", "active")
    assert (await tree.request("GET", f"{tree.branch_path(branch_id)}/endpoints"))["endpoints"] == created["endpoints"]
    assert [
        each["id"]
        for each in (await tree.request("GET", f"{tree.branch_path(tree.main_branch_id)}/endpoints"))["endpoints"]
    ] == [tree.endpoint_id]


async def test_annotations_are_shown_by_get_and_in_the_list(caller: Caller) -> None:
    tree = await create_project_client(caller)
    noted = (await _created(tree, {"branch": {"name": "noted"}, "annotation_value": ANNOTATIONS}))["branch"]["id"]
    plain = (await tree.create_branch())["branch"]["id"]
    annotation = (await tree.request("GET", tree.branch_path(noted)))["annotation"]
    assert (annotation["object"], annotation["value"]) == ({"type": "console/branch", "id": noted}, ANNOTATIONS)
    assert (await tree.request("GET", tree.branch_path(plain)))["annotation"]["value"] == {}
    assert (await tree.request("GET", tree.branches_path))["annotations"] == {noted: annotation}
    await tree.request("PATCH", tree.branch_path(noted), {"branch": {"name": "renamed"}})
    assert (await tree.request("GET", tree.branch_path(noted)))["annotation"]["value"] == ANNOTATIONS


async def test_at_once_after_the_project_the_copy_stands_in_line_behind_it(caller: Caller) -> None:
    tree = ProjectClient(caller, await caller.create_project())
    created = await tree.begin_branch(endpoints=(READ_WRITE,))
    assert operation_statuses(created) == ["scheduling", "scheduling"]
    child = await tree.begin_branch(parent_id=created["branch"]["id"])
    assert operation_statuses(child) == ["scheduling"]
    async with caller.api_app.services.store.read() as rows:
        work = {str(each.id): each for each in await rows.operations.list_open(created["branch"]["project_id"])}
    first, second = (work[each["id"]] for each in created["operations"])
    assert str(first.after) == tree.creation_response["operations"][-1]["id"]
    assert second.after == first.id
    assert work[child["operations"][0]["id"]].after == first.id


async def test_a_branch_of_a_branch_of_a_branch(caller: Caller) -> None:
    tree = await create_project_client(caller)
    above = tree.main_branch_id
    for depth in range(10):
        created = (await tree.begin_branch(f"depth {depth}", parent_id=above))["branch"]
        assert created["parent_id"] == above
        above = created["id"]
    assert (await tree.request("GET", f"{tree.branches_path}/count"))["count"] == 11


async def test_a_deletion_takes_endpoints_with_it(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await tree.create_branch("dev", endpoints=(READ_WRITE, READ_ONLY))
    branch_id, endpoints = created["branch"]["id"], [each["id"] for each in created["endpoints"]]
    deleted = await tree.request("DELETE", tree.branch_path(branch_id))
    assert (operation_actions(deleted), operation_statuses(deleted)) == (
        ["suspend_compute"] * 2,
        ["running", "scheduling"],
    )
    assert (deleted["branch"]["id"], "pending_state" in deleted["branch"]) == (branch_id, False)

    assert (
        "branch could not be found" in (await tree.request("GET", tree.branch_path(branch_id), status=404))["message"]
    )
    for path in (
        f"{tree.branch_path(branch_id)}/endpoints",
        f"{tree.branch_path(branch_id)}/roles",
        f"{tree.branch_path(branch_id)}/databases",
    ):
        await tree.request("GET", path, status=404)
    listed = (await tree.request("GET", f"{tree.path}/endpoints"))["endpoints"]
    assert [each["id"] for each in listed] == [tree.endpoint_id]
    for endpoint_id in endpoints:
        await tree.request("GET", f"{tree.path}/endpoints/{endpoint_id}", status=404)
    assert await tree.list_branch_names() == ["main"]
    assert await tree.list_branch_names(include_deleted=True) == ["dev", "main"]
    assert (await tree.request("GET", f"{tree.branches_path}/count"))["count"] == 1
    assert (await tree.get_branch_row(branch_id)).deletion_method == "user"


async def test_a_deletion_again_finds_nothing_to_do(caller: Caller) -> None:
    tree = await create_project_client(caller)
    branch = tree.branch_path((await tree.create_branch())["branch"]["id"])
    await tree.request("DELETE", branch)
    assert await tree.request("DELETE", branch, status=204) == {}
    await tree.finish_operations()
    assert await tree.request("DELETE", branch, status=204) == {}
    await tree.request("DELETE", tree.branch_path(BranchId.new()), status=404)
    await tree.request("PATCH", branch, {"branch": {"name": "back"}}, status=404)
    await tree.request("POST", f"{branch}/set_as_default", status=404)
    await tree.request("POST", tree.branches_path, {"branch": {"parent_id": branch.rpartition("/")[2]}}, status=404)


@pytest.mark.parametrize("verb", ["set_as_default", "set_as_primary"])
async def test_one_branch_is_the_default(caller: Caller, verb: str) -> None:
    tree = await create_project_client(caller)
    other = (await tree.create_branch())["branch"]["id"]
    for _ in range(2):  # the second request changes nothing
        after = await tree.request("POST", f"{tree.branch_path(other)}/{verb}")
        assert (after["branch"]["default"], after["branch"]["primary"], after["operations"]) == (True, True, [])
    assert {each: (await tree.get_branch(each))["default"] for each in (tree.main_branch_id, other)} == {
        tree.main_branch_id: False,
        other: True,
    }
    await tree.request("POST", f"{tree.branch_path(BranchId.new())}/{verb}", status=404)


async def test_gateways_hear_of_a_deletion_and_of_protection(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await tree.create_branch(endpoints=(READ_WRITE,))
    branch, endpoint, activity = (
        tree.branch_path(created["branch"]["id"]),
        created["endpoints"][0]["id"],
        caller.api_app.services.activity,
    )
    await activity.report("branches", 1, [])
    await tree.request("PATCH", branch, {"branch": {"name": "renamed", "protected": False}})
    assert endpoint not in await activity.report("branches", 2, [])
    for number, protected in ((3, True), (4, False)):
        await tree.request("PATCH", branch, {"branch": {"protected": protected}})
        assert endpoint in await activity.report("branches", number, [])
    await tree.request("DELETE", branch)
    assert endpoint in await activity.report("branches", 5, [])


async def test_an_idempotency_key_makes_one(caller: Caller) -> None:
    tree = await create_project_client(caller)
    headers = {"Idempotency-Key": "once"}
    first, second = [await caller.client.post(tree.branches_path, json={}, headers=headers) for _ in range(2)]
    assert (first.status_code, first.json()) == (201, second.json())
    assert second.headers["Idempotency-Replayed"] == "true"
    assert len(await tree.list_branch_names()) == 2
