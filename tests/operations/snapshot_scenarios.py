"""Scenarios of actions on snapshots; see `scenarios`."""

from dataclasses import replace

from bough import clock
from bough.control.restores.finalization import plan_finalize
from bough.control.restores.snapshot_restores import RequestedSnapshotRestore, restore_snapshot
from bough.control.restores.snapshots import RequestedSnapshot, create_snapshot, delete_snapshot
from bough.domain.operation import Operation, OperationStatus
from bough.domain.project import Project
from bough.domain.snapshot import Snapshot
from bough.ids import BranchId, ProjectId
from bough.operations.action import NewOperation
from bough.operations.actions import ALL_ACTIONS
from support.platform import API, Platform


async def prepare_create_snapshot(platform: Platform) -> NewOperation:
    """Of a suspended branch."""
    project, branch_id = await _suspended(platform)
    _, operations = await create_snapshot(
        await platform.create_context(), project, branch_id, RequestedSnapshot(name="one")
    )
    assert len(operations) == 1
    return await take_back(platform, operations)


async def prepare_delete_snapshot(platform: Platform) -> NewOperation:
    project, branch_id = await _suspended(platform)
    made = await _create_snapshot(platform, project, branch_id)
    operations = await delete_snapshot(await platform.create_context(), project, made.id)
    assert len(operations) == 1
    return await take_back(platform, operations)


async def prepare_finalize_restore(platform: Platform) -> NewOperation:
    """Both branches have a suspended endpoint."""
    project, branch_id = await _suspended(platform)
    made = await _create_snapshot(platform, project, branch_id)
    restored = await restore_snapshot(await platform.create_context(), project, made.id, RequestedSnapshotRestore())
    await platform.run_operations()
    await _suspend(platform, project.id, restored.endpoints[0].id)
    return plan_finalize(project.id, restored.branch.id, branch_id)


async def _create_snapshot(platform: Platform, project: Project, branch_id: BranchId) -> Snapshot:
    made, _ = await create_snapshot(await platform.create_context(), project, branch_id, RequestedSnapshot(name="one"))
    await platform.run_operations()
    return made


async def _suspended(platform: Platform) -> tuple[Project, BranchId]:
    made = await platform.create_ready_project()
    project_id = ProjectId(made["project"]["id"])
    await _suspend(platform, project_id, made["endpoints"][0]["id"])
    async with platform.store.read() as rows:
        project = await rows.projects.get(project_id)
    assert project is not None
    return project, BranchId(made["branch"]["id"])


async def _suspend(platform: Platform, project_id: ProjectId, endpoint_id: str) -> None:
    answer = await platform.client.post(f"{API}/projects/{project_id}/endpoints/{endpoint_id}/suspend")
    assert answer.status_code == 200, answer.text
    await platform.run_operations()


async def take_back(platform: Platform, operations: list[Operation]) -> NewOperation:
    """Cancel the operations, and return the first one to be enqueued by the test."""
    async with platform.store.transaction() as rows:
        for operation in operations:
            await rows.operations.save(replace(operation, status=OperationStatus.CANCELLED, ended_at=clock.now()))
    first = operations[0]
    action = ALL_ACTIONS.get(first.kind)
    params = action.params_type.decode(first.parameters)
    return NewOperation(action, first.project_id, first.branch_id, first.endpoint_id, params)
