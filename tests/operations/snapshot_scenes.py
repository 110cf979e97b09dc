"""The states that work on snapshots begins in; see `scenarios`."""

from dataclasses import replace

from bough import clock
from bough.control.finalizing import finalizing
from bough.control.snapshot_restores import SnapshotRestore, SnapshotRestores
from bough.control.snapshots import NewSnapshot, Snapshots
from bough.domain.operation import Operation, OperationStatus
from bough.domain.project import Project
from bough.domain.snapshot import Snapshot
from bough.ids import BranchId, ProjectId
from bough.operations.action import Wish
from world import API, Platform


async def making(platform: Platform) -> Wish:
    """Of a branch that sleeps."""
    project, branch_id = await _sleeping(platform)
    _, operations = await Snapshots(await platform.desk()).create(project, branch_id, NewSnapshot(name="one"))
    return await _again(platform, operations)


async def removing(platform: Platform) -> Wish:
    project, branch_id = await _sleeping(platform)
    made = await _made(platform, project, branch_id)
    return await _again(platform, await Snapshots(await platform.desk()).delete(project, made.id))


async def finalizing_two(platform: Platform) -> Wish:
    """Both branches have an endpoint, and both sleep."""
    project, branch_id = await _sleeping(platform)
    made = await _made(platform, project, branch_id)
    restored = await SnapshotRestores(await platform.desk()).restore(project, made.id, SnapshotRestore())
    await platform.settle()
    await _suspend(platform, project.id, restored.endpoints[0].id)
    return finalizing(project.id, restored.branch.id, branch_id)


async def _made(platform: Platform, project: Project, branch_id: BranchId) -> Snapshot:
    made, _ = await Snapshots(await platform.desk()).create(project, branch_id, NewSnapshot(name="one"))
    await platform.settle()
    return made


async def _sleeping(platform: Platform) -> tuple[Project, BranchId]:
    made = await platform.ready_project()
    project_id = ProjectId(made["project"]["id"])
    await _suspend(platform, project_id, made["endpoints"][0]["id"])
    async with platform.store.read() as rows:
        project = await rows.projects.get(project_id)
    assert project is not None
    return project, BranchId(made["branch"]["id"])


async def _suspend(platform: Platform, project_id: ProjectId, endpoint_id: str) -> None:
    answer = await platform.client.post(f"{API}/projects/{project_id}/endpoints/{endpoint_id}/suspend")
    assert answer.status_code == 200, answer.text
    await platform.settle()


async def _again(platform: Platform, operations: list[Operation]) -> Wish:
    """What was enqueued is taken back, to be enqueued by the test itself."""
    (operation,) = operations
    async with platform.store.transaction() as rows:
        await rows.operations.save(replace(operation, status=OperationStatus.CANCELLED, ended_at=clock.now()))
    return Wish(
        operation.action,
        operation.project_id,
        operation.branch_id,
        operation.endpoint_id,
        dict(operation.parameters),
    )
