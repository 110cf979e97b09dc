"""Requests for snapshots: what is stored, and the errors."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from api.project_client import create_project_client, operation_actions, operation_statuses
from api.snapshot_requests import (
    branch_snapshot_path,
    create_snapshot,
    expect_error,
    get_snapshot_row,
    list_snapshot_names,
    restore_snapshot,
    snapshot_path,
)
from api.test_branch_points import recovery_target, with_history
from bough import clock
from bough.config import DEFAULT_PLANS
from bough.domain.branch import BranchState
from bough.domain.history import HEAD, Point, RecoveryTarget
from bough.ids import SnapshotId
from support.api_app import ApiApp
from support.api_client import Caller

MINUTE = timedelta(minutes=1)


def soon(span: timedelta = MINUTE) -> str:
    return (clock.now() + span).isoformat()


async def test_of_what_a_branch_has_now(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await tree.request("POST", branch_snapshot_path(tree))
    snapshot = created["snapshot"]
    assert snapshot["id"].startswith("snap-")
    assert (snapshot["source_branch_id"], snapshot["manual"]) == (tree.main_branch_id, True)
    assert snapshot["name"].startswith("main 20")
    assert (operation_actions(created), operation_statuses(created)) == (["create_branch"], ["running"])
    assert "branch_id" not in created["operations"][0]
    main = await tree.get_branch_row(tree.main_branch_id)
    assert await recovery_target(tree, created) == RecoveryTarget(volume_id=main.volume_id, point=HEAD)
    assert await list_snapshot_names(tree) == [snapshot["name"]]
    assert await tree.list_branch_names() == ["main"], "it is no branch"


async def test_at_a_moment_and_at_a_position(caller: Caller) -> None:
    tree = await create_project_client(caller)
    await with_history(tree)
    main = await tree.get_branch_row(tree.main_branch_id)
    at = clock.now() - MINUTE
    created = await create_snapshot(tree, timestamp=at.isoformat(), name="then")
    assert await recovery_target(tree, created) == RecoveryTarget(volume_id=main.volume_id, point=Point(at=at))
    assert datetime.fromisoformat(created["snapshot"]["timestamp"]) == at
    created = await create_snapshot(tree, lsn="0/1a0", name="there")
    assert await recovery_target(tree, created) == RecoveryTarget(volume_id=main.volume_id, point=Point(lsn="0/1A0"))
    assert created["snapshot"]["lsn"] == "0/1A0"


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"lsn": "0/1A0", "timestamp": "2026-01-01T00:00:00Z"}, "Use lsn or timestamp, not both"),
        ({"lsn": "nowhere"}, "lsn is 'nowhere': write a WAL position such as 0/1A2B3C4D."),
        ({"lsn": "0/10"}, "lsn (0/10) is not in the branch's history: use a position from 0/100 to"),
        ({"timestamp": "yesterday"}, "timestamp"),
        ({"timestamp": "1700000000"}, "timestamp"),
        ({"timestamp": "2026-01-01T00:00:00"}, "timestamp"),
        ({"timestamp": "2020-01-01T00:00:00Z"}, "timestamp (2020-01-01T00:00:00Z) is before the history that is kept"),
        ({"timestamp": "2999-01-01T00:00:00Z"}, "timestamp (2999-01-01T00:00:00Z) is in the future"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at (2020-01-01T00:00:00+00:00) is in the past"),
        ({"expires_at": "soon"}, "expires_at"),
        ({"expires_at": "9999-12-31T23:59:59-23:00"}, "expires_at is after the year 9999"),
        ({"expires_at": "0001-01-01T00:00:00+23:00"}, "is in the past"),
        ({"timestamp": "0001-01-01T00:00:00+23:00"}, "timestamp"),
        ({"timestamp": "9999-12-31T23:59:59-23:00"}, "timestamp"),
        ({"name": ""}, "name"),
        ({"name": "x" * 257}, "name"),
        ({"name": "a\0b"}, "name"),
    ],
)
async def test_what_cannot_be_asked_for(caller: Caller, query: dict[str, str], sentence: str) -> None:
    tree = await create_project_client(caller)
    await with_history(tree)
    assert sentence in (await expect_error(tree, 400, "POST", branch_snapshot_path(tree), **query))["message"]


async def test_a_branch_without_history_has_no_points(caller: Caller) -> None:
    tree = await create_project_client(caller)
    response = await expect_error(
        tree, 400, "POST", branch_snapshot_path(tree), timestamp=(clock.now() - MINUTE).isoformat()
    )
    assert "no history to restore yet" in response["message"]
    tree = await create_project_client(caller, history_retention_seconds=0)
    response = await expect_error(tree, 400, "POST", branch_snapshot_path(tree), lsn="0/1A0")
    assert "the project keeps no history" in response["message"]


async def test_only_a_root_branch_has_snapshots(caller: Caller) -> None:
    tree = await create_project_client(caller)
    child = (await tree.create_branch("dev"))["branch"]["id"]
    response = await expect_error(tree, 422, "POST", branch_snapshot_path(tree, child))
    assert "Only a root branch can have snapshots, and 'dev' has a parent" in response["message"]
    await expect_error(tree, 404, "POST", branch_snapshot_path(tree, "br-nowhere"))


async def test_names_are_unique_in_a_project(caller: Caller) -> None:
    tree = await create_project_client(caller)
    first = await create_snapshot(tree, name="same")
    response = await expect_error(tree, 409, "POST", branch_snapshot_path(tree), name="same")
    assert response["message"] == "The project already has a snapshot named 'same'. Choose another name."
    other = await create_snapshot(tree, name="other")
    renamed = {"snapshot": {"name": "same"}}
    await expect_error(tree, 409, "PATCH", snapshot_path(tree, other["snapshot"]["id"]), renamed)
    await tree.request_and_finish("DELETE", snapshot_path(tree, first["snapshot"]["id"]), status=202)
    await tree.request("PATCH", snapshot_path(tree, other["snapshot"]["id"]), renamed)
    usual = [await create_snapshot(tree) for _ in range(3)]
    assert len({each["snapshot"]["name"] for each in usual}) == 3


async def test_names_and_ends_are_changed(caller: Caller) -> None:
    tree = await create_project_client(caller)
    end = soon()
    created = (await create_snapshot(tree, name="one", expires_at=end))["snapshot"]
    assert datetime.fromisoformat(created["expires_at"]) == datetime.fromisoformat(end)
    path = snapshot_path(tree, created["id"])
    changed = (await tree.request("PATCH", path, {"snapshot": {"name": "ünïcode \u2603"}}))["snapshot"]
    assert (changed["name"], changed["expires_at"]) == ("ünïcode \u2603", created["expires_at"])
    later = soon(2 * MINUTE)
    changed = (await tree.request("PATCH", path, {"snapshot": {"expires_at": later}}))["snapshot"]
    assert datetime.fromisoformat(changed["expires_at"]) == datetime.fromisoformat(later)
    assert "expires_at" not in (await tree.request("PATCH", path, {"snapshot": {"expires_at": None}}))["snapshot"]
    assert (await tree.request("PATCH", path, {"snapshot": {}}))["snapshot"]["name"] == "ünïcode \u2603"
    for wrong in ({}, {"snapshot": None}, {"snapshot": {"name": ""}}, {"snapshot": {"expires_at": 7}}):
        await expect_error(tree, 400, "PATCH", path, wrong)
    response = await expect_error(tree, 400, "PATCH", path, {"snapshot": {"expires_at": "2020-01-01T00:00:00Z"}})
    assert "is in the past" in response["message"]


async def test_a_snapshot_that_is_deleted_is_gone_at_once(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = (await create_snapshot(tree, name="one"))["snapshot"]
    deleted = await tree.request("DELETE", snapshot_path(tree, created["id"]), status=202)
    assert operation_actions(deleted) == ["delete_timeline"]
    assert await list_snapshot_names(tree) == []
    for method, path, body in (
        ("DELETE", snapshot_path(tree, created["id"]), None),
        ("PATCH", snapshot_path(tree, created["id"]), {"snapshot": {}}),
        ("POST", f"{snapshot_path(tree, created['id'])}/restore", None),
    ):
        assert "snapshot could not be found" in (await tree.request(method, path, body, status=404))["message"]


async def test_what_is_copied_stays_until_it_is_copied(api_app: ApiApp, caller: Caller) -> None:
    """A branch is being created from it, or it is being created itself."""
    tree = await create_project_client(caller)
    created = await tree.request("POST", branch_snapshot_path(tree), name="one")
    path = snapshot_path(tree, created["snapshot"]["id"])
    await expect_error(tree, 423, "DELETE", path)
    await expect_error(tree, 423, "PATCH", path, {"snapshot": {"name": "two"}})
    await expect_error(tree, 423, "POST", f"{path}/restore")
    assert (await tree.send("DELETE", tree.path)).status_code == 423
    async with caller.client_for(ApiApp(api_app.platform, hold_seconds=60)) as client:
        request = asyncio.create_task(client.post(f"{path}/restore"))
        await asyncio.sleep(0.1)
        await tree.finish_operations()
        assert (await request).status_code == 200
    await expect_error(tree, 423, "DELETE", path)
    await tree.finish_operations()
    await tree.request("DELETE", path, status=202)


async def test_a_branch_is_not_changed_while_it_is_copied(caller: Caller) -> None:
    tree = await create_project_client(caller)
    await tree.request("POST", branch_snapshot_path(tree), name="one")
    role = {"role": {"name": "app"}}
    assert (await tree.send("POST", f"{tree.branch_path(tree.main_branch_id)}/roles", role)).status_code == 423
    assert (await tree.send("POST", f"{tree.path}/endpoints/{tree.endpoint_id}/start")).status_code == 200


async def test_a_snapshot_outlives_its_branch(caller: Caller) -> None:
    tree = await create_project_client(caller)
    first = (await create_snapshot(tree, name="first"))["snapshot"]["id"]
    root = (await restore_snapshot(tree, first))["branch"]["id"]
    created = (await create_snapshot(tree, root, name="second"))["snapshot"]
    await tree.request_and_finish("DELETE", tree.branch_path(root))
    assert await list_snapshot_names(tree) == ["second", "first"]
    assert (await tree.request("GET", f"{tree.path}/snapshots"))["snapshots"][0]["source_branch_id"] == root
    again = await restore_snapshot(tree, created["id"])
    assert "restored_as" not in again["branch"]


async def test_one_of_a_branch_that_is_being_made_comes_after_it(caller: Caller) -> None:
    created = await caller.create_project()
    project_id, branch_id = created["project"]["id"], created["branch"]["id"]
    response = await caller.client.post(f"/projects/{project_id}/branches/{branch_id}/snapshot")
    assert response.json()["operations"][0]["status"] == "scheduling"


async def test_an_archived_branch_comes_back_first(caller: Caller) -> None:
    tree = await create_project_client(caller)
    main = await tree.get_branch_row(tree.main_branch_id)
    async with caller.api_app.services.store.transaction() as rows:
        await rows.branches.save(replace(main, state=BranchState.ARCHIVED))
    created = await tree.request("POST", branch_snapshot_path(tree))
    assert operation_actions(created) == ["timeline_unarchive", "create_branch"]
    assert operation_statuses(created) == ["running", "scheduling"]


async def test_the_plan_limits_snapshots(api_app: ApiApp, stranger: Caller) -> None:
    plans = {name: plan.model_dump() for name, plan in DEFAULT_PLANS.items()}
    small = ApiApp(api_app.platform, plans={**plans, "free": {**plans["free"], "snapshots": 2}})
    tree = await create_project_client(replace(stranger, api_app=small, client=small.client(stranger.token)))
    created = [await create_snapshot(tree) for _ in range(2)]
    response = await expect_error(tree, 422, "POST", branch_snapshot_path(tree))
    assert response["code"] == "SNAPSHOTS_LIMIT_EXCEEDED"
    assert "has 2 snapshots, the limit of its plan. Delete one, or change the plan." in response["message"]
    await tree.request("DELETE", snapshot_path(tree, created[0]["snapshot"]["id"]), status=202)
    await tree.finish_operations()
    await create_snapshot(tree)
    assert [DEFAULT_PLANS[name].snapshots for name in ("free", "unlimited", "unclaimed")] == [10, 100_000, 0]


async def test_a_repetition_is_told_apart_by_what_it_asks_for(caller: Caller) -> None:
    """All parameters of a new snapshot are in the query."""
    tree = await create_project_client(caller)
    once = {"Idempotency-Key": f"once {tree.id}"}
    requested: list[Any] = [
        await caller.client.post(branch_snapshot_path(tree), params={"name": name}, headers=once)
        for name in ("one", "one", "other")
    ]
    assert [response.status_code for response in requested] == [200, 200, 422]
    assert requested[0].json() == requested[1].json()
    assert await list_snapshot_names(tree) == ["one"]


async def test_nobody_reaches_those_of_another_project(caller: Caller) -> None:
    tree, other = await create_project_client(caller), await create_project_client(caller)
    created = (await create_snapshot(tree))["snapshot"]["id"]
    await expect_error(other, 404, "DELETE", snapshot_path(other, created))
    await expect_error(other, 404, "PATCH", snapshot_path(other, created), {"snapshot": {}})
    await expect_error(other, 404, "POST", f"{snapshot_path(other, created)}/restore")
    assert await list_snapshot_names(other) == []
    assert await get_snapshot_row(other, created) is None
    assert await get_snapshot_row(tree, SnapshotId(created)) is not None
