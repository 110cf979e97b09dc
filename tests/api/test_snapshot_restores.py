"""Restoring snapshots, in one step and in two, as it is asked for."""

from dataclasses import replace
from typing import Any

import pytest

from api.callers import Caller, Json
from api.shelf_of_snapshots import of_branch, one, refused, restored, taken
from api.test_branch_points import told
from api.test_restores import parameters, runs
from api.trees import READ_ONLY, READ_WRITE, Tree, actions, plant
from bough import clock
from bough.domain.endpoint import EndpointState
from bough.domain.history import HEAD, Target
from bough.domain.operation import ALSO, SOURCE
from bough.ids import BranchId, EndpointId


async def with_snapshot(caller: Caller, **fields: Any) -> tuple[Tree, str]:
    tree = await plant(caller, **fields)
    return tree, (await taken(tree, name="yesterday"))["snapshot"]["id"]


def finalizing(tree: Tree, branch_id: str) -> str:
    return f"{tree.of(branch_id)}/finalize_restore"


async def finalize_refused(tree: Tree, status: int, branch_id: str, body: Json | None = None) -> str:
    return str((await refused(tree, status, "POST", finalizing(tree, branch_id), body))["message"])


async def test_a_branch_to_look_at(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    made = await tree.ask("POST", f"{one(tree, snapshot)}/restore")
    branch = made["branch"]
    assert branch["name"] == "yesterday restored"
    assert "parent_id" not in branch, "as the one whose place it takes, it is a root"
    told_of = {"restore_status": "restored", "restored_from": snapshot, "restored_as": tree.main}
    assert branch.items() >= told_of.items()
    assert not branch["default"]
    assert [each["type"] for each in made["endpoints"]] == ["read_write"]
    assert actions(made) == ["create_branch", "start_compute"]
    async with caller.front.parts.store.read() as rows:
        (held,) = await rows.snapshots.of_project((await tree.branch_row(tree.main)).project_id)
    assert await told(tree, made) == Target(volume_id=held.volume_id, point=HEAD)
    assert (await parameters(tree, made))[SOURCE] == snapshot
    await tree.settles()
    again = await tree.ask("POST", f"{one(tree, snapshot)}/restore", {})
    assert again["branch"]["name"] == "yesterday restored (2)"


async def test_passwords_are_those_of_the_branch_whose_place_it_takes(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    await tree.ask("PATCH", tree.of(tree.main), {"branch": {"protected": True}})
    made = await restored(tree, snapshot)
    assert made["branch"]["protected"]
    paths = [f"{tree.role('neondb_owner', each)}/reveal_password" for each in (tree.main, made["branch"]["id"])]
    before, after = [(await tree.ask("GET", path))["password"] for path in paths]
    assert before == after


async def test_the_name_may_be_given_in_the_body_or_in_the_query(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    path = f"{one(tree, snapshot)}/restore"
    assert (await tree.ask("POST", path, {"name": "a"}, name="b"))["branch"]["name"] == "a"
    await tree.settles()
    assert (await tree.ask("POST", path, name="b"))["branch"]["name"] == "b"
    await tree.settles()
    assert "named 'main' already" in (await refused(tree, 409, "POST", path, {"name": "main"}))["message"]
    wrongs: list[Any] = [{"name": ""}, {"target_branch_id": "X"}, {"finalize_restore": "yes"}, []]
    for wrong in wrongs:
        await refused(tree, 400, "POST", path, wrong)
    await refused(tree, 400, "POST", path, name="")
    await refused(tree, 404, "POST", path, {"target_branch_id": "br-nowhere"})
    await refused(tree, 404, "POST", f"{one(tree, 'snap-nowhere')}/restore")


async def test_in_one_step(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    replica = await tree.ask(
        "POST", f"{tree.path}/endpoints", {"endpoint": {"branch_id": tree.main, **READ_ONLY}}, status=201
    )
    await tree.settles()
    await runs(tree, tree.endpoint, replica["endpoint"]["id"])
    made = await tree.ask("POST", f"{one(tree, snapshot)}/restore", {"finalize_restore": True})
    assert actions(made) == ["create_branch", "create_timeline", "start_compute", "start_compute"]
    assert made["endpoints"] == []
    assert [each.get("endpoint_id") for each in made["operations"]] == [
        None,
        None,
        tree.endpoint,
        replica["endpoint"]["id"],
    ]
    assert {each["branch_id"] for each in made["operations"]} == {made["branch"]["id"]}
    assert (await parameters(tree, made, 1))[ALSO] == tree.main
    role = {"role": {"name": "app"}}
    assert (await tree.answer("POST", f"{tree.of(tree.main)}/roles", role)).status_code == 423


async def test_computes_that_sleep_stay_asleep(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    async with caller.front.parts.store.transaction() as rows:
        endpoint = await rows.endpoints.get(EndpointId(tree.endpoint))
        assert endpoint is not None
        await rows.endpoints.save(replace(endpoint, state=EndpointState.IDLE, pending_state=None))
    made = await tree.ask("POST", f"{one(tree, snapshot)}/restore", {"finalize_restore": True})
    assert actions(made) == ["create_branch", "create_timeline"]


async def test_into_another_branch(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    dev = (await tree.grows("dev", endpoints=(READ_WRITE,)))["branch"]["id"]
    made = await restored(tree, snapshot, target_branch_id=dev, name="dev again")
    assert made["branch"].items() >= {"parent_id": tree.main, "restored_as": dev}.items()
    assert actions(await tree.ask("POST", finalizing(tree, made["branch"]["id"]))) == [
        "create_timeline",
        "start_compute",
    ]


async def test_two_steps_end_with_the_second(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    await runs(tree, tree.endpoint)
    branch_id = (await restored(tree, snapshot))["branch"]["id"]
    done = await tree.ask("POST", finalizing(tree, branch_id))
    assert actions(done) == ["create_timeline", "start_compute"]
    assert (await parameters(tree, done))[ALSO] == tree.main


async def test_a_password_changed_since_is_the_one_that_counts(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    branch_id = (await restored(tree, snapshot))["branch"]["id"]
    new = (await tree.does("POST", f"{tree.role('neondb_owner')}/reset_password"))["role"]["password"]
    await tree.ask("POST", finalizing(tree, branch_id))
    role = (await tree.role_rows(branch_id))["neondb_owner"]
    assert role.is_wished
    assert role.verifier == (await tree.role_rows(tree.main))["neondb_owner"].verifier
    shown = await tree.ask("GET", f"{tree.role('neondb_owner', branch_id)}/reveal_password")
    assert shown["password"] == new


async def test_what_cannot_be_finalized(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    sentence = await finalize_refused(tree, 422, tree.main)
    assert sentence == "The branch 'main' was not restored from a snapshot, so there is nothing to finalize."
    await finalize_refused(tree, 404, "br-nowhere")
    branch_id = (await restored(tree, snapshot))["branch"]["id"]
    assert "named 'main' already" in await finalize_refused(tree, 409, branch_id, {"name": "main"})
    await finalize_refused(tree, 400, branch_id, {"name": ""})
    branch = await tree.branch_row(branch_id)
    async with caller.front.parts.store.transaction() as rows:
        await rows.branches.save(replace(branch, finalized_at=clock.now()))
    assert "was finalized already" in await finalize_refused(tree, 422, branch_id)


async def test_a_branch_without_a_place_to_take(caller: Caller) -> None:
    """Its snapshot's branch is gone, or went before it was finalized."""
    tree, snapshot = await with_snapshot(caller)
    root = (await restored(tree, snapshot, name="root"))["branch"]["id"]
    second = (await taken(tree, root, name="second"))["snapshot"]["id"]
    waiting = (await restored(tree, second, name="waiting"))["branch"]["id"]
    await tree.does("DELETE", tree.of(root))
    assert "would take is gone" in await finalize_refused(tree, 422, waiting)
    answer = await refused(tree, 422, "POST", f"{one(tree, second)}/restore", {"finalize_restore": True})
    assert "give target_branch_id, or leave out finalize_restore" in answer["message"]
    alone = (await restored(tree, second, name="alone"))["branch"]
    assert "restored_as" not in alone
    assert "would take is gone" in await finalize_refused(tree, 422, alone["id"])
    await tree.ask("POST", f"{one(tree, second)}/restore", {"finalize_restore": True, "target_branch_id": tree.main})


async def test_whoever_took_the_place_meanwhile_is_meant(caller: Caller) -> None:
    """Two were restored from one snapshot; the first is finalized, and then the second takes its place."""
    tree, snapshot = await with_snapshot(caller)
    first, second = [(await restored(tree, snapshot, name=name))["branch"]["id"] for name in ("first", "second")]
    main, row = await tree.branch_row(tree.main), await tree.branch_row(first)
    async with caller.front.parts.store.transaction() as rows:
        await rows.branches.save(replace(main, replaced_by=BranchId(first)))
        await rows.branches.save(replace(row, finalized_at=clock.now()))
    assert (await parameters(tree, await tree.ask("POST", finalizing(tree, second))))[ALSO] == first
    await tree.settles()
    made = await restored(tree, snapshot, name="third")
    assert made["branch"]["restored_as"] == first, "that one stands in the place of the snapshot's branch"
    asked = await restored(tree, snapshot, name="fourth", target_branch_id=tree.main)
    done = await tree.ask("POST", finalizing(tree, asked["branch"]["id"]))
    assert (await parameters(tree, done))[ALSO] == tree.main, "it was asked for when it was replaced already"


@pytest.mark.parametrize("replaced", [False, True])
async def test_roots_beside_the_first_can_be_deleted(caller: Caller, replaced: bool) -> None:
    tree, snapshot = await with_snapshot(caller)
    sentence = await tree.refused(422, "DELETE", tree.of(tree.main))
    assert "default branch" in sentence
    branch_id = (await restored(tree, snapshot))["branch"]["id"]
    if replaced:
        main = await tree.branch_row(tree.main)
        async with caller.front.parts.store.transaction() as rows:
            await rows.branches.save(replace(main, is_default=False, replaced_by=BranchId(branch_id)))
            await rows.branches.save(replace(await tree.branch_row(branch_id), is_default=True))
        branch_id = tree.main
    await tree.ask("DELETE", tree.of(branch_id))


async def test_snapshots_are_taken_of_what_was_restored(caller: Caller) -> None:
    tree, snapshot = await with_snapshot(caller)
    branch_id = (await restored(tree, snapshot))["branch"]["id"]
    await tree.ask("POST", of_branch(tree, branch_id))
