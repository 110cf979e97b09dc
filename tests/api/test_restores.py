"""Restores and resets as they are asked for: what is written, and what is refused with which sentence."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from api.callers import Caller, Json
from api.test_branch_points import MINUTE, told, with_history
from api.trees import READ_ONLY, READ_WRITE, Tree, actions, plant, statuses
from bough import clock
from bough.domain.branch import BranchState
from bough.domain.endpoint import EndpointState
from bough.domain.history import HEAD, Point, Target
from bough.domain.operation import ALSO, SOURCE
from bough.ids import BranchId, EndpointId, OperationId


def body(source: str, name: str | None = None, **point: Any) -> Json:
    return {"source_branch_id": source, **({} if name is None else {"preserve_under_name": name}), **point}


def a_while_ago() -> str:
    return (clock.now() - MINUTE).isoformat()


async def restored(tree: Tree, branch_id: str, asked: Json) -> Json:
    return await tree.ask("POST", f"{tree.of(branch_id)}/restore", asked)


async def refused(tree: Tree, status: int, branch_id: str, asked: Any) -> str:
    return await tree.refused(status, "POST", f"{tree.of(branch_id)}/restore", asked)


async def parameters(tree: Tree, made: Json, which: int = 0) -> Json:
    async with tree.caller.front.parts.store.read() as rows:
        operation = await rows.operations.get(OperationId(made["operations"][which]["id"]))
    assert operation is not None
    return dict(operation.parameters)


async def runs(tree: Tree, *endpoints: str) -> None:
    """The rows say that their computes run."""
    async with tree.caller.front.parts.store.transaction() as rows:
        for endpoint_id in endpoints:
            found = await rows.endpoints.get(EndpointId(endpoint_id))
            assert found is not None
            await rows.endpoints.save(replace(found, state=EndpointState.ACTIVE, pending_state=None))


async def test_to_a_moment_of_its_own_history(caller: Caller) -> None:
    tree = await plant(caller)
    await with_history(tree)
    main = await tree.branch_row(tree.main)
    at = clock.now() - MINUTE
    made = await restored(tree, tree.main, body(tree.main, "before", source_timestamp=at.isoformat()))
    assert made["branch"]["id"] == tree.main
    assert actions(made) == ["create_timeline", "start_compute"]  # its compute is on its way up
    assert await told(tree, made) == Target(volume_id=main.volume_id, point=Point(at=at))
    listed = (await tree.ask("GET", tree.branches))["branches"]
    kept = next(each for each in listed if each["name"] == "before")
    assert (kept["current_state"], kept["pending_state"]) == ("init", "ready")
    assert kept["parent_id"] == tree.main
    assert (await parameters(tree, made))[ALSO] == kept["id"]
    roles = (await tree.ask("GET", f"{tree.of(kept['id'])}/roles"))["roles"]
    assert [role["name"] for role in roles] == ["neondb_owner"]
    assert (await tree.ask("GET", f"{tree.of(kept['id'])}/endpoints"))["endpoints"] == []


async def test_what_a_child_had_is_kept_beside_it(caller: Caller) -> None:
    tree = await plant(caller)
    child = (await tree.grows("child"))["branch"]["id"]
    await with_history(tree, child)
    await restored(tree, child, body(child, "before", source_timestamp=a_while_ago()))
    listed = (await tree.ask("GET", tree.branches))["branches"]
    assert next(each for each in listed if each["name"] == "before")["parent_id"] == tree.main


async def test_passwords_of_what_is_kept_are_those_of_the_branch(caller: Caller) -> None:
    tree = await plant(caller)
    await with_history(tree)
    await restored(tree, tree.main, body(tree.main, "before", source_timestamp=a_while_ago()))
    listed = (await tree.ask("GET", tree.branches))["branches"]
    kept = next(each["id"] for each in listed if each["name"] == "before")
    passwords = [
        (await tree.ask("GET", f"{tree.role('neondb_owner', each)}/reveal_password"))["password"]
        for each in (tree.main, kept)
    ]
    assert passwords[0] == passwords[1]


async def test_from_another_branch_as_it_is_now(caller: Caller) -> None:
    tree = await plant(caller)
    dev = (await tree.grows("dev"))["branch"]["id"]
    source = await tree.branch_row(tree.main)
    made = await restored(tree, dev, body(tree.main))
    assert await told(tree, made) == Target(volume_id=source.volume_id, point=HEAD)
    assert (await parameters(tree, made))[SOURCE] == tree.main
    assert ALSO not in await parameters(tree, made)
    assert await tree.names() == ["dev", "main"]


async def test_computes_that_run_start_again_after_it_and_those_that_sleep_sleep_on(caller: Caller) -> None:
    tree = await plant(caller)
    dev = await tree.grows("dev", endpoints=(READ_ONLY, READ_WRITE, READ_ONLY))
    follower, writer, _ = (each["id"] for each in dev["endpoints"])
    async with caller.front.parts.store.transaction() as rows:
        for each in await rows.endpoints.of_branch(BranchId(dev["branch"]["id"])):
            await rows.endpoints.save(replace(each, state=EndpointState.IDLE, pending_state=None))
    await runs(tree, follower, writer)
    made = await restored(tree, dev["branch"]["id"], body(tree.main))
    assert actions(made) == ["create_timeline", "start_compute", "start_compute"]
    assert statuses(made) == ["running", "scheduling", "scheduling"]
    assert [each.get("endpoint_id") for each in made["operations"]] == [None, writer, follower]


async def test_while_it_prepares_clients_and_their_endpoints_go_on(caller: Caller) -> None:
    """Only who would change the branch itself is told to wait, or who wants what is not there yet."""
    tree = await plant(caller)
    await with_history(tree)
    await runs(tree, tree.endpoint)
    await restored(tree, tree.main, body(tree.main, "before", source_timestamp=a_while_ago()))
    kept = next(each for each in (await tree.ask("GET", tree.branches))["branches"] if each["name"] == "before")["id"]
    await tree.ask("PATCH", f"{tree.path}/endpoints/{tree.endpoint}", {"endpoint": {"pooler_enabled": True}})
    await tree.ask("POST", f"{tree.path}/endpoints/{tree.endpoint}/restart")
    await tree.begins("another")
    for method, path, asked in [
        ("POST", f"{tree.of(tree.main)}/restore", body(tree.main, "again", source_timestamp=a_while_ago())),
        ("POST", f"{tree.of(tree.main)}/roles", {"role": {"name": "app"}}),
        ("POST", f"{tree.path}/endpoints", {"endpoint": {"branch_id": kept, "type": "read_write"}}),
        ("POST", tree.branches, {"branch": {"parent_id": kept}}),
        ("PATCH", tree.of(kept), {"branch": {"name": "other"}}),
        ("DELETE", tree.of(kept), None),
        ("DELETE", tree.path, None),
    ]:
        assert "conflicting operation in progress" in await tree.refused(423, method, path, asked), path


@pytest.mark.parametrize(
    ("point", "sentence"),
    [
        ({}, "restored to a point of its own history: give source_lsn or source_timestamp."),
        ({"source_lsn": "nowhere"}, "source_lsn is 'nowhere': write a position in the WAL as 0/1A2B3C4D."),
        ({"source_lsn": "0/99"}, "source_lsn (0/99) is not in the branch's history: give a position from 0/100 to"),
        ({"source_timestamp": "2020-01-01T00:00:00Z"}, "source_timestamp (2020-01-01T00:00:00Z) is before the history"),
        ({"source_timestamp": "9999-01-01T00:00:00Z"}, "is in the future: give a moment from "),
        ({"source_timestamp": "noon"}, "source_timestamp"),
        (
            {"source_lsn": "0/200", "source_timestamp": "2026-01-01T00:00:00Z"},
            "source_lsn and source_timestamp are both given: a point is one or the other.",
        ),
    ],
)
async def test_a_bad_point_is_refused_with_a_reason(caller: Caller, point: Json, sentence: str) -> None:
    tree = await plant(caller)
    await with_history(tree)
    assert sentence in await refused(tree, 400, tree.main, body(tree.main, "before", **point))


@pytest.mark.parametrize(
    "asked",
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
async def test_a_bad_body_is_refused(caller: Caller, asked: Any) -> None:
    tree = await plant(caller)
    await refused(tree, 400, tree.main, asked)


async def test_both_branches_are_of_the_project(caller: Caller) -> None:
    tree, other = await plant(caller), await plant(caller)
    for source in (str(BranchId.new()), other.main):
        assert "branch could not be found" in await refused(tree, 404, tree.main, body(source))
    assert "branch could not be found" in await refused(tree, 404, other.main, body(tree.main))
    gone = (await tree.grows("gone"))["branch"]["id"]
    await tree.does("DELETE", tree.of(gone))
    assert "branch could not be found" in await refused(tree, 404, gone, body(tree.main))
    assert "branch could not be found" in await refused(tree, 404, tree.main, body(gone))


async def test_to_itself_what_is_there_needs_a_name(caller: Caller) -> None:
    tree = await plant(caller)
    await with_history(tree)
    sentence = await refused(tree, 400, tree.main, body(tree.main, source_timestamp=a_while_ago()))
    assert "give preserve_under_name." in sentence


async def test_a_name_that_is_taken_is_refused(caller: Caller) -> None:
    tree = await plant(caller)
    await with_history(tree)
    await tree.grows("dev")
    for name in ("dev", "main"):
        asked = body(tree.main, name, source_timestamp=a_while_ago())
        assert f"a branch named {name!r} already. Choose another name." in await refused(tree, 409, tree.main, asked)


async def test_a_protected_branch_is_not_restored(caller: Caller) -> None:
    tree = await plant(caller)
    dev = (await tree.grows("dev"))["branch"]["id"]
    await tree.does("PATCH", tree.of(dev), {"branch": {"protected": True}})
    assert "is protected" in await refused(tree, 422, dev, body(tree.main))
    other = (await tree.grows("other"))["branch"]["id"]
    await restored(tree, other, body(dev))  # its data may be taken; passwords are those of the branch that takes it


async def test_a_branch_with_children_needs_a_name_for_what_they_were_made_of(caller: Caller) -> None:
    tree = await plant(caller)
    dev = (await tree.grows("dev"))["branch"]["id"]
    await tree.grows("grandchild", parent_id=dev)
    sentence = await refused(tree, 422, dev, body(tree.main))
    assert "has child branches" in sentence
    assert "give preserve_under_name" in sentence
    await restored(tree, dev, body(tree.main, "dev before"))


async def test_archived_branches_come_back_first(caller: Caller) -> None:
    tree = await plant(caller)
    one, other = [(await tree.grows(name))["branch"]["id"] for name in ("one", "other")]
    async with caller.front.parts.store.transaction() as rows:
        for each in (one, other):
            await rows.branches.save(replace(await tree.branch_row(each), state=BranchState.ARCHIVED))
    made = await restored(tree, one, body(other))
    assert actions(made) == ["timeline_unarchive", "timeline_unarchive", "create_timeline"]
    assert {each["branch_id"] for each in made["operations"][:2]} == {one, other}


async def test_it_is_written_into_the_audit(caller: Caller) -> None:
    tree = await plant(caller)
    dev = (await tree.grows("dev"))["branch"]["id"]
    await restored(tree, dev, body(tree.main, "dev before"))
    answer = await caller.client.get("/bough/audit", params={"org_id": caller.organization.id})
    (line,) = [each for each in answer.json()["audit"] if each["action"] == "restore_project_branch"]
    assert line["thing"] == dev
    assert line["details"]["source"] == tree.main


async def test_a_repeated_request_restores_once(caller: Caller) -> None:
    tree = await plant(caller)
    await with_history(tree, age=timedelta(hours=2))
    asked = body(tree.main, "before", source_timestamp=a_while_ago())
    headers = {"Idempotency-Key": "once"}
    first, again = [
        await caller.client.post(f"{tree.of(tree.main)}/restore", json=asked, headers=headers) for _ in range(2)
    ]
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json() == again.json()
