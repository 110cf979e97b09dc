"""Requests for restores and resets: what is stored, and the errors."""

from dataclasses import replace
from datetime import timedelta
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
from api.test_branch_points import MINUTE, recovery_target, with_history
from bough import clock
from bough.domain.branch import BranchState
from bough.domain.endpoint import EndpointState
from bough.domain.history import HEAD, Point, RecoveryTarget
from bough.ids import BranchId, EndpointId, OperationId
from support.api_client import Caller, Json


def body(source: str, name: str | None = None, **point: Any) -> Json:
    return {"source_branch_id": source, **({} if name is None else {"preserve_under_name": name}), **point}


def a_while_ago() -> str:
    return (clock.now() - MINUTE).isoformat()


async def restored(tree: ProjectClient, branch_id: str, requested: Json) -> Json:
    return await tree.request("POST", f"{tree.branch_path(branch_id)}/restore", requested)


async def refused(tree: ProjectClient, status: int, branch_id: str, requested: Any) -> str:
    return await tree.expect_error(status, "POST", f"{tree.branch_path(branch_id)}/restore", requested)


async def parameters(tree: ProjectClient, created: Json, which: int = 0) -> Json:
    async with tree.caller.api_app.services.store.read() as rows:
        operation = await rows.operations.get(OperationId(created["operations"][which]["id"]))
    assert operation is not None
    return dict(operation.parameters)


async def runs(tree: ProjectClient, *endpoints: str) -> None:
    """Marks their computes as running."""
    async with tree.caller.api_app.services.store.transaction() as rows:
        for endpoint_id in endpoints:
            found = await rows.endpoints.get(EndpointId(endpoint_id))
            assert found is not None
            await rows.endpoints.save(replace(found, state=EndpointState.ACTIVE, pending_state=None))


async def test_to_a_moment_of_its_own_history(caller: Caller) -> None:
    tree = await create_project_client(caller)
    await with_history(tree)
    main = await tree.get_branch_row(tree.main_branch_id)
    at = clock.now() - MINUTE
    created = await restored(
        tree, tree.main_branch_id, body(tree.main_branch_id, "before", source_timestamp=at.isoformat())
    )
    assert created["branch"]["id"] == tree.main_branch_id
    assert operation_actions(created) == ["create_timeline", "start_compute"]  # its compute is starting
    assert await recovery_target(tree, created) == RecoveryTarget(volume_id=main.volume_id, point=Point(at=at))
    listed = (await tree.request("GET", tree.branches_path))["branches"]
    kept = next(each for each in listed if each["name"] == "before")
    assert (kept["current_state"], kept["pending_state"]) == ("init", "ready")
    assert kept["parent_id"] == tree.main_branch_id
    assert (await parameters(tree, created))["also_id"] == kept["id"]
    roles = (await tree.request("GET", f"{tree.branch_path(kept['id'])}/roles"))["roles"]
    assert [role["name"] for role in roles] == ["neondb_owner"]
    assert (await tree.request("GET", f"{tree.branch_path(kept['id'])}/endpoints"))["endpoints"] == []


async def test_what_a_child_had_is_kept_beside_it(caller: Caller) -> None:
    tree = await create_project_client(caller)
    child = (await tree.create_branch("child"))["branch"]["id"]
    await with_history(tree, child)
    await restored(tree, child, body(child, "before", source_timestamp=a_while_ago()))
    listed = (await tree.request("GET", tree.branches_path))["branches"]
    assert next(each for each in listed if each["name"] == "before")["parent_id"] == tree.main_branch_id


async def test_passwords_of_what_is_kept_are_those_of_the_branch(caller: Caller) -> None:
    tree = await create_project_client(caller)
    await with_history(tree)
    await restored(tree, tree.main_branch_id, body(tree.main_branch_id, "before", source_timestamp=a_while_ago()))
    listed = (await tree.request("GET", tree.branches_path))["branches"]
    kept = next(each["id"] for each in listed if each["name"] == "before")
    passwords = [
        (await tree.request("GET", f"{tree.role_path('neondb_owner', each)}/reveal_password"))["password"]
        for each in (tree.main_branch_id, kept)
    ]
    assert passwords[0] == passwords[1]


async def test_from_another_branch_as_it_is_now(caller: Caller) -> None:
    tree = await create_project_client(caller)
    dev = (await tree.create_branch("dev"))["branch"]["id"]
    source = await tree.get_branch_row(tree.main_branch_id)
    created = await restored(tree, dev, body(tree.main_branch_id))
    assert await recovery_target(tree, created) == RecoveryTarget(volume_id=source.volume_id, point=HEAD)
    assert (await parameters(tree, created))["source_id"] == tree.main_branch_id
    assert "also_id" not in await parameters(tree, created)
    assert await tree.list_branch_names() == ["dev", "main"]


async def test_computes_that_run_start_again_after_it_and_those_that_sleep_sleep_on(caller: Caller) -> None:
    tree = await create_project_client(caller)
    dev = await tree.create_branch("dev", endpoints=(READ_ONLY, READ_WRITE, READ_ONLY))
    follower, writer, _ = (each["id"] for each in dev["endpoints"])
    async with caller.api_app.services.store.transaction() as rows:
        for each in await rows.endpoints.list_in_branch(BranchId(dev["branch"]["id"])):
            await rows.endpoints.save(replace(each, state=EndpointState.IDLE, pending_state=None))
    await runs(tree, follower, writer)
    created = await restored(tree, dev["branch"]["id"], body(tree.main_branch_id))
    assert operation_actions(created) == ["create_timeline", "start_compute", "start_compute"]
    assert operation_statuses(created) == ["running", "scheduling", "scheduling"]
    assert [each.get("endpoint_id") for each in created["operations"]] == [None, writer, follower]


async def test_while_it_prepares_clients_and_their_endpoints_go_on(caller: Caller) -> None:
    """Only requests that change the branch itself or need data that does not exist yet have to wait."""
    tree = await create_project_client(caller)
    await with_history(tree)
    await runs(tree, tree.endpoint_id)
    await restored(tree, tree.main_branch_id, body(tree.main_branch_id, "before", source_timestamp=a_while_ago()))
    kept = next(
        each for each in (await tree.request("GET", tree.branches_path))["branches"] if each["name"] == "before"
    )["id"]
    await tree.request("PATCH", f"{tree.path}/endpoints/{tree.endpoint_id}", {"endpoint": {"pooler_enabled": True}})
    await tree.request("POST", f"{tree.path}/endpoints/{tree.endpoint_id}/restart")
    await tree.begin_branch("another")
    for method, path, requested in [
        (
            "POST",
            f"{tree.branch_path(tree.main_branch_id)}/restore",
            body(tree.main_branch_id, "again", source_timestamp=a_while_ago()),
        ),
        ("POST", f"{tree.branch_path(tree.main_branch_id)}/roles", {"role": {"name": "app"}}),
        ("POST", f"{tree.path}/endpoints", {"endpoint": {"branch_id": kept, "type": "read_write"}}),
        ("POST", tree.branches_path, {"branch": {"parent_id": kept}}),
        ("PATCH", tree.branch_path(kept), {"branch": {"name": "other"}}),
        ("DELETE", tree.branch_path(kept), None),
        ("DELETE", tree.path, None),
    ]:
        assert "conflicting operation in progress" in await tree.expect_error(423, method, path, requested), path


@pytest.mark.parametrize(
    ("point", "sentence"),
    [
        ({}, "To restore a branch to its own history, give source_lsn or source_timestamp."),
        ({"source_lsn": "nowhere"}, "source_lsn is 'nowhere': write a WAL position such as 0/1A2B3C4D."),
        ({"source_lsn": "0/99"}, "source_lsn (0/99) is not in the branch's history: use a position from 0/100 to"),
        ({"source_timestamp": "2020-01-01T00:00:00Z"}, "source_timestamp (2020-01-01T00:00:00Z) is before the history"),
        ({"source_timestamp": "9999-01-01T00:00:00Z"}, "is in the future: use a time from "),
        ({"source_timestamp": "noon"}, "source_timestamp"),
        (
            {"source_lsn": "0/200", "source_timestamp": "2026-01-01T00:00:00Z"},
            "Use source_lsn or source_timestamp, not both.",
        ),
    ],
)
async def test_a_bad_point_is_refused_with_a_reason(caller: Caller, point: Json, sentence: str) -> None:
    tree = await create_project_client(caller)
    await with_history(tree)
    assert sentence in await refused(tree, 400, tree.main_branch_id, body(tree.main_branch_id, "before", **point))


@pytest.mark.parametrize(
    "requested",
    [
        None,
        {},
        [],
        {"source_branch_id": 7},
        {"source_branch_id": ""},
        {"source_branch_id": "Not An Id"},
        {"source_branch_id": "br-a", "preserve_under_name": ""},
        {"source_branch_id": "br-a", "preserve_under_name": "x" * 257},
        {"source_branch_id": "br-a", "preserve_under_name": "a\0b"},
    ],
)
async def test_a_bad_body_is_refused(caller: Caller, requested: Any) -> None:
    tree = await create_project_client(caller)
    await refused(tree, 400, tree.main_branch_id, requested)


async def test_both_branches_are_of_the_project(caller: Caller) -> None:
    tree, other = await create_project_client(caller), await create_project_client(caller)
    for source in (str(BranchId.new()), other.main_branch_id):
        assert "branch could not be found" in await refused(tree, 404, tree.main_branch_id, body(source))
    assert "branch could not be found" in await refused(tree, 404, other.main_branch_id, body(tree.main_branch_id))
    deleted = (await tree.create_branch("gone"))["branch"]["id"]
    await tree.request_and_finish("DELETE", tree.branch_path(deleted))
    assert "branch could not be found" in await refused(tree, 404, deleted, body(tree.main_branch_id))
    assert "branch could not be found" in await refused(tree, 404, tree.main_branch_id, body(deleted))


async def test_to_itself_what_is_there_needs_a_name(caller: Caller) -> None:
    tree = await create_project_client(caller)
    await with_history(tree)
    sentence = await refused(tree, 400, tree.main_branch_id, body(tree.main_branch_id, source_timestamp=a_while_ago()))
    assert "give preserve_under_name." in sentence


async def test_a_name_that_is_taken_is_refused(caller: Caller) -> None:
    tree = await create_project_client(caller)
    await with_history(tree)
    await tree.create_branch("dev")
    for name in ("dev", "main"):
        requested = body(tree.main_branch_id, name, source_timestamp=a_while_ago())
        assert f"already has a branch named {name!r}. Choose another name." in await refused(
            tree, 409, tree.main_branch_id, requested
        )


async def test_a_protected_branch_is_not_restored(caller: Caller) -> None:
    tree = await create_project_client(caller)
    dev = (await tree.create_branch("dev"))["branch"]["id"]
    await tree.request_and_finish("PATCH", tree.branch_path(dev), {"branch": {"protected": True}})
    assert "is protected" in await refused(tree, 422, dev, body(tree.main_branch_id))
    other = (await tree.create_branch("other"))["branch"]["id"]
    await restored(tree, other, body(dev))  # its data may be copied; the target branch keeps its own passwords


async def test_a_branch_with_children_needs_a_name_for_what_they_were_made_of(caller: Caller) -> None:
    tree = await create_project_client(caller)
    dev = (await tree.create_branch("dev"))["branch"]["id"]
    await tree.create_branch("grandchild", parent_id=dev)
    sentence = await refused(tree, 422, dev, body(tree.main_branch_id))
    assert "has child branches" in sentence
    assert "give preserve_under_name" in sentence
    await restored(tree, dev, body(tree.main_branch_id, "dev before"))


async def test_archived_branches_come_back_first(caller: Caller) -> None:
    tree = await create_project_client(caller)
    one, other = [(await tree.create_branch(name))["branch"]["id"] for name in ("one", "other")]
    async with caller.api_app.services.store.transaction() as rows:
        for each in (one, other):
            await rows.branches.save(replace(await tree.get_branch_row(each), state=BranchState.ARCHIVED))
    created = await restored(tree, one, body(other))
    assert operation_actions(created) == ["timeline_unarchive", "timeline_unarchive", "create_timeline"]
    assert {each["branch_id"] for each in created["operations"][:2]} == {one, other}


async def test_it_is_written_into_the_audit(caller: Caller) -> None:
    tree = await create_project_client(caller)
    dev = (await tree.create_branch("dev"))["branch"]["id"]
    await restored(tree, dev, body(tree.main_branch_id, "dev before"))
    response = await caller.client.get("/bough/audit", params={"org_id": caller.organization.id})
    (line,) = [each for each in response.json()["audit"] if each["action"] == "restore_project_branch"]
    assert line["thing"] == dev
    assert line["details"]["source"] == tree.main_branch_id


async def test_a_repeated_request_restores_once(caller: Caller) -> None:
    tree = await create_project_client(caller)
    await with_history(tree, age=timedelta(hours=2))
    requested = body(tree.main_branch_id, "before", source_timestamp=a_while_ago())
    headers = {"Idempotency-Key": "once"}
    first, again = [
        await caller.client.post(f"{tree.branch_path(tree.main_branch_id)}/restore", json=requested, headers=headers)
        for _ in range(2)
    ]
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json() == again.json()
