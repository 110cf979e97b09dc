"""Requests to restore snapshots, in one step and in two."""

from dataclasses import replace
from typing import Any

import pytest

from api.project_client import READ_ONLY, READ_WRITE, ProjectClient, create_project_client, operation_actions
from api.snapshot_requests import branch_snapshot_path, create_snapshot, expect_error, restore_snapshot, snapshot_path
from api.test_branch_points import recovery_target
from api.test_restores import parameters, runs
from bough import clock
from bough.domain.endpoint import EndpointState
from bough.domain.history import HEAD, RecoveryTarget
from bough.ids import BranchId, EndpointId
from support.api_client import Caller, Json


async def with_snapshot(caller: Caller, **fields: Any) -> tuple[ProjectClient, str]:
    tree = await create_project_client(caller, **fields)
    return tree, (await create_snapshot(tree, name="yesterday"))["snapshot"]["id"]


def finalizing(tree: ProjectClient, branch_id: str) -> str:
    return f"{tree.branch_path(branch_id)}/finalize_restore"


async def finalize_refused(tree: ProjectClient, status: int, branch_id: str, body: Json | None = None) -> str:
    return str((await expect_error(tree, status, "POST", finalizing(tree, branch_id), body))["message"])


async def test_a_branch_to_look_at(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    created = await tree.request("POST", f"{snapshot_path(tree, snapshot)}/restore")
    branch = created["branch"]
    assert branch["name"] == "yesterday restored"
    assert "parent_id" not in branch, "as the one whose place it takes, it is a root"
    told_of = {"restore_status": "restored", "restored_from": snapshot, "restored_as": tree.main_branch_id}
    assert branch.items() >= told_of.items()
    assert not branch["default"]
    assert [each["type"] for each in created["endpoints"]] == ["read_write"]
    assert operation_actions(created) == ["create_branch", "start_compute"]
    async with caller.api_app.services.store.read() as rows:
        (source,) = await rows.snapshots.list_in_project((await tree.get_branch_row(tree.main_branch_id)).project_id)
    assert await recovery_target(tree, created) == RecoveryTarget(volume_id=source.volume_id, point=HEAD)
    assert (await parameters(tree, created))["source_id"] == snapshot
    await tree.finish_operations()
    again = await tree.request("POST", f"{snapshot_path(tree, snapshot)}/restore", {})
    assert again["branch"]["name"] == "yesterday restored (2)"


async def test_passwords_are_those_of_the_branch_whose_place_it_takes(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    await tree.request("PATCH", tree.branch_path(tree.main_branch_id), {"branch": {"protected": True}})
    created = await restore_snapshot(tree, snapshot)
    assert created["branch"]["protected"]
    paths = [
        f"{tree.role_path('neondb_owner', each)}/reveal_password"
        for each in (tree.main_branch_id, created["branch"]["id"])
    ]
    before, after = [(await tree.request("GET", path))["password"] for path in paths]
    assert before == after


async def test_the_name_may_be_given_in_the_body_or_in_the_query(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    path = f"{snapshot_path(tree, snapshot)}/restore"
    assert (await tree.request("POST", path, {"name": "a"}, name="b"))["branch"]["name"] == "a"
    await tree.finish_operations()
    assert (await tree.request("POST", path, name="b"))["branch"]["name"] == "b"
    await tree.finish_operations()
    assert (
        "already has a branch named 'main'"
        in (await expect_error(tree, 409, "POST", path, {"name": "main"}))["message"]
    )
    wrongs: list[Any] = [{"name": ""}, {"target_branch_id": "X"}, {"finalize_restore": "yes"}, []]
    for wrong in wrongs:
        await expect_error(tree, 400, "POST", path, wrong)
    await expect_error(tree, 400, "POST", path, name="")
    await expect_error(tree, 404, "POST", path, {"target_branch_id": "br-nowhere"})
    await expect_error(tree, 404, "POST", f"{snapshot_path(tree, 'snap-nowhere')}/restore")


async def test_in_one_step(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    replica = await tree.request(
        "POST", f"{tree.path}/endpoints", {"endpoint": {"branch_id": tree.main_branch_id, **READ_ONLY}}, status=201
    )
    await tree.finish_operations()
    await runs(tree, tree.endpoint_id, replica["endpoint"]["id"])
    created = await tree.request("POST", f"{snapshot_path(tree, snapshot)}/restore", {"finalize_restore": True})
    assert operation_actions(created) == ["create_branch", "create_timeline", "start_compute", "start_compute"]
    assert created["endpoints"] == []
    assert [each.get("endpoint_id") for each in created["operations"]] == [
        None,
        None,
        tree.endpoint_id,
        replica["endpoint"]["id"],
    ]
    assert {each["branch_id"] for each in created["operations"]} == {created["branch"]["id"]}
    assert (await parameters(tree, created, 1))["also_id"] == tree.main_branch_id
    role = {"role": {"name": "app"}}
    assert (await tree.send("POST", f"{tree.branch_path(tree.main_branch_id)}/roles", role)).status_code == 423


async def test_computes_that_sleep_stay_asleep(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    async with caller.api_app.services.store.transaction() as rows:
        endpoint = await rows.endpoints.get(EndpointId(tree.endpoint_id))
        assert endpoint is not None
        await rows.endpoints.save(replace(endpoint, state=EndpointState.IDLE, pending_state=None))
    created = await tree.request("POST", f"{snapshot_path(tree, snapshot)}/restore", {"finalize_restore": True})
    assert operation_actions(created) == ["create_branch", "create_timeline"]


async def test_into_another_branch(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    dev = (await tree.create_branch("dev", endpoints=(READ_WRITE,)))["branch"]["id"]
    created = await restore_snapshot(tree, snapshot, target_branch_id=dev, name="dev again")
    assert created["branch"].items() >= {"parent_id": tree.main_branch_id, "restored_as": dev}.items()
    assert operation_actions(await tree.request("POST", finalizing(tree, created["branch"]["id"]))) == [
        "create_timeline",
        "start_compute",
    ]


async def test_two_steps_end_with_the_second(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    await runs(tree, tree.endpoint_id)
    branch_id = (await restore_snapshot(tree, snapshot))["branch"]["id"]
    done = await tree.request("POST", finalizing(tree, branch_id))
    assert operation_actions(done) == ["create_timeline", "start_compute"]
    assert (await parameters(tree, done))["also_id"] == tree.main_branch_id


async def test_a_password_changed_since_is_the_one_that_counts(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    branch_id = (await restore_snapshot(tree, snapshot))["branch"]["id"]
    new = (await tree.request_and_finish("POST", f"{tree.role_path('neondb_owner')}/reset_password"))["role"][
        "password"
    ]
    await tree.request("POST", finalizing(tree, branch_id))
    role = (await tree.get_role_rows(branch_id))["neondb_owner"]
    assert role.is_pending
    assert role.verifier == (await tree.get_role_rows(tree.main_branch_id))["neondb_owner"].verifier
    shown = await tree.request("GET", f"{tree.role_path('neondb_owner', branch_id)}/reveal_password")
    assert shown["password"] == new


async def test_what_cannot_be_finalized(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    sentence = await finalize_refused(tree, 422, tree.main_branch_id)
    assert sentence == "The branch 'main' was not restored from a snapshot, so there is nothing to finalize."
    await finalize_refused(tree, 404, "br-nowhere")
    branch_id = (await restore_snapshot(tree, snapshot))["branch"]["id"]
    assert "already has a branch named 'main'" in await finalize_refused(tree, 409, branch_id, {"name": "main"})
    await finalize_refused(tree, 400, branch_id, {"name": ""})
    branch = await tree.get_branch_row(branch_id)
    async with caller.api_app.services.store.transaction() as rows:
        await rows.branches.save(replace(branch, finalized_at=clock.now()))
    assert "is already finalized" in await finalize_refused(tree, 422, branch_id)


async def test_a_branch_without_a_place_to_take(caller: Caller) -> None:
    """The snapshot's branch is deleted, or was deleted before the restore is finalized."""
    tree, snapshot = await with_snapshot(caller)
    root = (await restore_snapshot(tree, snapshot, name="root"))["branch"]["id"]
    second = (await create_snapshot(tree, root, name="second"))["snapshot"]["id"]
    waiting = (await restore_snapshot(tree, second, name="waiting"))["branch"]["id"]
    await tree.request_and_finish("DELETE", tree.branch_path(root))
    assert "would replace no longer exists" in await finalize_refused(tree, 422, waiting)
    response = await expect_error(
        tree, 422, "POST", f"{snapshot_path(tree, second)}/restore", {"finalize_restore": True}
    )
    assert "Set target_branch_id, or omit finalize_restore" in response["message"]
    alone = (await restore_snapshot(tree, second, name="alone"))["branch"]
    assert "restored_as" not in alone
    assert "would replace no longer exists" in await finalize_refused(tree, 422, alone["id"])
    await tree.request(
        "POST",
        f"{snapshot_path(tree, second)}/restore",
        {"finalize_restore": True, "target_branch_id": tree.main_branch_id},
    )


async def test_whoever_took_the_place_meanwhile_is_meant(caller: Caller) -> None:
    """Two branches are restored from one snapshot; the first is finalized, then the second replaces it."""
    tree, snapshot = await with_snapshot(caller)
    first, second = [
        (await restore_snapshot(tree, snapshot, name=name))["branch"]["id"] for name in ("first", "second")
    ]
    main, row = await tree.get_branch_row(tree.main_branch_id), await tree.get_branch_row(first)
    async with caller.api_app.services.store.transaction() as rows:
        await rows.branches.save(replace(main, replaced_by=BranchId(first)))
        await rows.branches.save(replace(row, finalized_at=clock.now()))
    assert (await parameters(tree, await tree.request("POST", finalizing(tree, second))))["also_id"] == first
    await tree.finish_operations()
    created = await restore_snapshot(tree, snapshot, name="third")
    assert created["branch"]["restored_as"] == first, "that one stands in the place of the snapshot's branch"
    requested = await restore_snapshot(tree, snapshot, name="fourth", target_branch_id=tree.main_branch_id)
    done = await tree.request("POST", finalizing(tree, requested["branch"]["id"]))
    assert (await parameters(tree, done))["also_id"] == tree.main_branch_id, (
        "it was asked for when it was replaced already"
    )


@pytest.mark.parametrize("replaced", [False, True])
async def test_roots_beside_the_first_can_be_deleted(caller: Caller, replaced: bool) -> None:
    tree, snapshot = await with_snapshot(caller)
    sentence = await tree.expect_error(422, "DELETE", tree.branch_path(tree.main_branch_id))
    assert "default branch" in sentence
    branch_id = (await restore_snapshot(tree, snapshot))["branch"]["id"]
    if replaced:
        main = await tree.get_branch_row(tree.main_branch_id)
        async with caller.api_app.services.store.transaction() as rows:
            await rows.branches.save(replace(main, is_default=False, replaced_by=BranchId(branch_id)))
            await rows.branches.save(replace(await tree.get_branch_row(branch_id), is_default=True))
        branch_id = tree.main_branch_id
    await tree.request("DELETE", tree.branch_path(branch_id))


async def test_snapshots_are_taken_of_what_was_restored(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    branch_id = (await restore_snapshot(tree, snapshot))["branch"]["id"]
    await tree.request("POST", branch_snapshot_path(tree, branch_id))
