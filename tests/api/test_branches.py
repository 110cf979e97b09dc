"""Branches: created with what their parent has, shown, changed, deleted."""

from typing import Any

import pytest

from api.callers import Caller, Json
from api.trees import READ_ONLY, READ_WRITE, Tree, actions, plant, statuses
from bough.ids import BranchId

ANNOTATIONS = {"ticket": "42", "grün": "🌿", "": ""}


async def _created(tree: Tree, body: Any = None) -> Json:
    made = await tree.ask("POST", tree.branches, body, status=201)
    await tree.settles()
    return made


@pytest.mark.parametrize("body", [None, {}, {"branch": {}}, {"endpoints": []}, {"branch": {}, "unknown": 1}])
async def test_who_says_nothing_gets_a_branch_of_the_default(caller: Caller, body: Any) -> None:
    tree = await plant(caller)
    made = await _created(tree, body)
    branch = made["branch"]
    assert (branch["parent_id"], branch["name"], branch["project_id"]) == (tree.main, branch["id"], tree.id)
    assert (branch["default"], branch["primary"], branch["protected"]) == (False,) * 3
    assert (branch["current_state"], branch["pending_state"]) == ("init", "ready")
    assert (branch["init_source"], branch["creation_source"]) == ("parent-data", "api")
    assert {"expires_at", "ttl_interval_seconds", "parent_lsn", "logical_size"}.isdisjoint(branch)
    assert (made["endpoints"], actions(made)) == ([], ["create_branch"])
    assert "connection_uris" not in made


async def test_the_default_is_the_branch_that_is_it_now(caller: Caller) -> None:
    tree = await plant(caller)
    other = (await tree.grows())["branch"]["id"]
    await tree.ask("POST", f"{tree.of(other)}/set_as_default")
    assert (await tree.grows())["branch"]["parent_id"] == other
    assert (await tree.grows(parent_id=tree.main))["branch"]["parent_id"] == tree.main


async def test_what_made_it_is_what_is_shown_of_it(caller: Caller) -> None:
    tree = await plant(caller)
    made = await tree.grows("dev", init_source="schema-only", protected=True)
    assert (made["branch"]["init_source"], made["branch"]["protected"]) == ("schema-only", True)
    assert await tree.branch(made["branch"]["id"]) == made["branch"]
    assert made["branch"] in (await tree.ask("GET", tree.branches))["branches"]
    assert made["branch"]["created_by"]["name"] == caller.user.name


@pytest.mark.parametrize("name", ["a", "x" * 256, "feature/grün 🌿", "%_\\'\"; drop table", " ", "main ", "MAIN", "\n"])
async def test_any_name_is_kept_as_it_is(caller: Caller, name: str) -> None:
    tree = await plant(caller)
    branch_id = (await tree.grows(name))["branch"]["id"]
    assert (await tree.branch(branch_id))["name"] == name
    assert await tree.names() == [name, "main"]


async def test_endpoints_come_when_they_are_asked_for(caller: Caller) -> None:
    tree = await plant(caller, default_endpoint_settings={"suspend_timeout_seconds": 600})
    sized = {"autoscaling_limit_min_cu": 0.5, "autoscaling_limit_max_cu": 2, "suspend_timeout_seconds": 90}
    kept = {"settings": {"pg_settings": {"work_mem": "9MB"}}, "provisioner": "k8s-pod"}
    made = await tree.begins(endpoints=({**READ_WRITE, **sized}, {**READ_ONLY, **kept}, READ_ONLY))
    assert actions(made) == ["create_branch", "start_compute", "start_compute", "start_compute"]
    assert statuses(made) == ["running", "scheduling", "scheduling", "scheduling"]
    branch_id = made["branch"]["id"]
    assert {operation["branch_id"] for operation in made["operations"]} == {branch_id}
    assert [each.get("endpoint_id") for each in made["operations"]] == [
        None,
        *(each["id"] for each in made["endpoints"]),
    ]
    assert [each["type"] for each in made["endpoints"]] == ["read_write", "read_only", "read_only"]
    first, second, third = made["endpoints"]
    assert first | sized == first
    assert second | kept == second
    assert third["suspend_timeout_seconds"] == 600
    for each in made["endpoints"]:
        assert (each["branch_id"], each["current_state"], each["pending_state"]) == (branch_id, "init", "active")
    assert (await tree.ask("GET", f"{tree.of(branch_id)}/endpoints"))["endpoints"] == made["endpoints"]
    assert [each["id"] for each in (await tree.ask("GET", f"{tree.of(tree.main)}/endpoints"))["endpoints"]] == [
        tree.endpoint
    ]


async def test_annotations_are_shown_by_get_and_in_the_list(caller: Caller) -> None:
    tree = await plant(caller)
    noted = (await _created(tree, {"branch": {"name": "noted"}, "annotation_value": ANNOTATIONS}))["branch"]["id"]
    plain = (await tree.grows())["branch"]["id"]
    annotation = (await tree.ask("GET", tree.of(noted)))["annotation"]
    assert (annotation["object"], annotation["value"]) == ({"type": "console/branch", "id": noted}, ANNOTATIONS)
    assert (await tree.ask("GET", tree.of(plain)))["annotation"]["value"] == {}
    assert (await tree.ask("GET", tree.branches))["annotations"] == {noted: annotation}
    await tree.ask("PATCH", tree.of(noted), {"branch": {"name": "renamed"}})
    assert (await tree.ask("GET", tree.of(noted)))["annotation"]["value"] == ANNOTATIONS


async def test_at_once_after_the_project_the_copy_stands_in_line_behind_it(caller: Caller) -> None:
    tree = Tree(caller, await caller.creates())
    made = await tree.begins(endpoints=(READ_WRITE,))
    assert statuses(made) == ["scheduling", "scheduling"]
    child = await tree.begins(parent_id=made["branch"]["id"])
    assert statuses(child) == ["scheduling"]
    async with caller.front.parts.store.read() as rows:
        work = {str(each.id): each for each in await rows.operations.open_of(made["branch"]["project_id"])}
    first, second = (work[each["id"]] for each in made["operations"])
    assert str(first.after) == tree.made["operations"][-1]["id"]
    assert second.after == first.id
    assert work[child["operations"][0]["id"]].after == first.id


async def test_a_branch_of_a_branch_of_a_branch(caller: Caller) -> None:
    tree = await plant(caller)
    above = tree.main
    for depth in range(10):
        made = (await tree.begins(f"depth {depth}", parent_id=above))["branch"]
        assert made["parent_id"] == above
        above = made["id"]
    assert (await tree.ask("GET", f"{tree.branches}/count"))["count"] == 11


async def test_a_deletion_takes_endpoints_with_it(caller: Caller) -> None:
    tree = await plant(caller)
    made = await tree.grows("dev", endpoints=(READ_WRITE, READ_ONLY))
    branch_id, endpoints = made["branch"]["id"], [each["id"] for each in made["endpoints"]]
    gone = await tree.ask("DELETE", tree.of(branch_id))
    assert (actions(gone), statuses(gone)) == (["suspend_compute"] * 2, ["running", "scheduling"])
    assert (gone["branch"]["id"], "pending_state" in gone["branch"]) == (branch_id, False)

    assert "branch could not be found" in (await tree.ask("GET", tree.of(branch_id), status=404))["message"]
    for path in (f"{tree.of(branch_id)}/endpoints", f"{tree.of(branch_id)}/roles", f"{tree.of(branch_id)}/databases"):
        await tree.ask("GET", path, status=404)
    listed = (await tree.ask("GET", f"{tree.path}/endpoints"))["endpoints"]
    assert [each["id"] for each in listed] == [tree.endpoint]
    for endpoint_id in endpoints:
        await tree.ask("GET", f"{tree.path}/endpoints/{endpoint_id}", status=404)
    assert await tree.names() == ["main"]
    assert await tree.names(include_deleted=True) == ["dev", "main"]
    assert (await tree.ask("GET", f"{tree.branches}/count"))["count"] == 1
    assert (await tree.branch_row(branch_id)).deletion_method == "user"


async def test_a_deletion_again_finds_nothing_to_do(caller: Caller) -> None:
    tree = await plant(caller)
    branch = tree.of((await tree.grows())["branch"]["id"])
    await tree.ask("DELETE", branch)
    assert await tree.ask("DELETE", branch, status=204) == {}
    await tree.settles()
    assert await tree.ask("DELETE", branch, status=204) == {}
    await tree.ask("DELETE", tree.of(BranchId.new()), status=404)
    await tree.ask("PATCH", branch, {"branch": {"name": "back"}}, status=404)
    await tree.ask("POST", f"{branch}/set_as_default", status=404)
    await tree.ask("POST", tree.branches, {"branch": {"parent_id": branch.rpartition("/")[2]}}, status=404)


@pytest.mark.parametrize("verb", ["set_as_default", "set_as_primary"])
async def test_one_branch_is_the_default(caller: Caller, verb: str) -> None:
    tree = await plant(caller)
    other = (await tree.grows())["branch"]["id"]
    for _ in range(2):  # the second time it is so already
        after = await tree.ask("POST", f"{tree.of(other)}/{verb}")
        assert (after["branch"]["default"], after["branch"]["primary"], after["operations"]) == (True, True, [])
    assert {each: (await tree.branch(each))["default"] for each in (tree.main, other)} == {
        tree.main: False,
        other: True,
    }
    await tree.ask("POST", f"{tree.of(BranchId.new())}/{verb}", status=404)


async def test_gateways_hear_of_a_deletion_and_of_protection(caller: Caller) -> None:
    tree = await plant(caller)
    made = await tree.grows(endpoints=(READ_WRITE,))
    branch, endpoint, activity = tree.of(made["branch"]["id"]), made["endpoints"][0]["id"], caller.front.parts.activity
    await activity.report("branches", 1, [])
    await tree.ask("PATCH", branch, {"branch": {"name": "renamed", "protected": False}})
    assert endpoint not in await activity.report("branches", 2, [])
    for number, protected in ((3, True), (4, False)):
        await tree.ask("PATCH", branch, {"branch": {"protected": protected}})
        assert endpoint in await activity.report("branches", number, [])
    await tree.ask("DELETE", branch)
    assert endpoint in await activity.report("branches", 5, [])


async def test_an_idempotency_key_makes_one(caller: Caller) -> None:
    tree = await plant(caller)
    headers = {"Idempotency-Key": "once"}
    first, second = [await caller.client.post(tree.branches, json={}, headers=headers) for _ in range(2)]
    assert (first.status_code, first.json()) == (201, second.json())
    assert second.headers["Idempotency-Replayed"] == "true"
    assert len(await tree.names()) == 2
