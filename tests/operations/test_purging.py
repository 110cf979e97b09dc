"""The data of a branch that can no longer be recovered is removed while its project lives on: repeatedly, with
failures at each step, and with history that other branches still need.
"""

from dataclasses import replace

import pytest

from bough.control.branches import deletion
from bough.control.branches.branches import create_branch
from bough.control.branches.plan import RequestedBranch
from bough.domain.branch import Branch, BranchLineage, BranchState
from bough.domain.operation import Operation, OperationStatus
from bough.ids import BranchId, ProjectId
from bough.operations.actions.delete_branch import DeleteBranch
from operations.test_every_action import failing_at, run, twice
from support.platform import Platform


async def _delete_child(platform: Platform, parent: Branch, name: str) -> Branch:
    """Create a child and delete its rows; its data remains."""
    async with platform.store.read() as rows:
        project = await rows.projects.get(parent.project_id)
    assert project is not None
    made = await create_branch(
        await platform.create_context(), project, RequestedBranch(parent_id=parent.id, name=name)
    )
    await platform.run_operations()
    async with platform.store.transaction() as rows:
        fresh = await rows.branches.get(project.id, made.branch.id)
        assert fresh is not None
        gone = await deletion.delete_branch_rows(rows, fresh, method="user", recoverable_seconds=0)
    return gone.branch


async def _create_root(platform: Platform) -> Branch:
    made = await platform.create_ready_project()
    async with platform.store.read() as rows:
        found = await rows.branches.get(ProjectId(made["project"]["id"]), BranchId(made["branch"]["id"]))
    assert found is not None
    return found


async def _enqueue(platform: Platform, branch: Branch) -> Operation:
    new = deletion.plan_data_deletion(branch)
    async with platform.services.queue.locked_transaction(new.lock) as rows:
        return (await platform.services.queue.enqueue(rows, [new], "test"))[0]


async def test_each_step_may_be_repeated_and_its_row_stays(platform: Platform) -> None:
    main = await _create_root(platform)
    branch = await _delete_child(platform, main, "gone")
    before = (await platform.engine.observe()).volumes
    ended = await run(platform, twice(DeleteBranch), await _enqueue(platform, branch))
    assert (ended.status, ended.failures) == (OperationStatus.FINISHED, 0)
    assert before - (await platform.engine.observe()).volumes == {branch.volume_id}
    async with platform.store.read() as rows:
        assert await rows.branches.get(branch.project_id, branch.id) == branch
        assert await rows.lineages.get_by_volume(branch.volume_id) is None
        assert await rows.roles.list_in_branch(branch.id) == []
        assert [each.name for each in await rows.branches.list_in_project(branch.project_id)] == ["main"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", DeleteBranch.steps[:2])
async def test_after_a_failure_at_any_step_it_goes_all_the_same(platform: Platform, step: str, when: str) -> None:
    branch = await _delete_child(platform, await _create_root(platform), "gone")
    failing = failing_at(DeleteBranch, step, when=when, times=2)
    ended = await run(platform, failing, await _enqueue(platform, branch))
    assert (ended.status, ended.failures) == (OperationStatus.FINISHED, 2)
    assert branch.volume_id not in (await platform.engine.observe()).volumes


@pytest.mark.parametrize("archived", [False, True])
async def test_what_another_branch_was_is_retired_and_not_removed(platform: Platform, archived: bool) -> None:
    """An archived branch is unpacked first, so that its WAL can be kept."""
    main = await _create_root(platform)
    branch = await _delete_child(platform, main, "gone")
    if archived:
        await platform.engine.ensure_packed(branch.project_id, branch.volume_id)
    async with platform.store.transaction() as rows:
        lineage = await rows.lineages.get_by_volume(branch.volume_id)
        assert lineage is not None
        await rows.lineages.add_branch_lineage(BranchLineage(branch_id=main.id, position=1, lineage_id=lineage.id))
        if archived:
            await rows.branches.save(replace(branch, state=BranchState.ARCHIVED))
    ended = await run(platform, twice(DeleteBranch), await _enqueue(platform, branch))
    assert (ended.status, ended.failures) == (OperationStatus.FINISHED, 0)
    async with platform.store.read() as rows:
        assert [each.id for each in await rows.lineages.list_retired_volumes()] == [branch.volume_id]
        assert [each.lineage.volume_id for each in await rows.lineages.list_ranges(main.id)][-1] == branch.volume_id
        assert await rows.lineages.list_ranges(branch.id) == []
    await platform.engine.retire_volume(branch.project_id, branch.volume_id)
    assert branch.volume_id not in (await platform.engine.observe()).volumes
