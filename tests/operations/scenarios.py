"""For each action the states in which it starts, on a real platform, and the operation to enqueue.

A new action joins the generic tests by adding its scenario here; a test fails until it does.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from bough import clock
from bough.control.branches.branches import create_branch
from bough.control.branches.plan import RequestedBranch
from bough.control.projects.plan import RequestedProject
from bough.control.projects.projects import create_project
from bough.control.restores.restores import RequestedRestore, restore_branch
from bough.domain.allowance import Fullness
from bough.domain.branch import BranchState
from bough.domain.catalog_change import CreateDatabase
from bough.domain.endpoint import EndpointState
from bough.domain.history import HEAD, Point
from bough.domain.operation import Operation
from bough.domain.project import Project
from bough.ids import BranchId, EndpointId, ProjectId
from bough.operations.action import ActionType, NewOperation
from bough.operations.actions.apply_config import ApplyConfig
from bough.operations.actions.apply_history_retention import ApplyHistoryRetention
from bough.operations.actions.archive_branch import ArchiveBranch
from bough.operations.actions.change_catalog import ChangeCatalog, ChangeCatalogParams
from bough.operations.actions.create_branch import CreateBranch
from bough.operations.actions.create_root_branch import CreateRootBranch
from bough.operations.actions.create_snapshot import CreateSnapshot
from bough.operations.actions.delete_branch import DeleteBranch
from bough.operations.actions.delete_snapshot import DeleteSnapshot
from bough.operations.actions.finalize_restore import FinalizeRestore
from bough.operations.actions.restore_branch import RestoreBranch
from bough.operations.actions.start_compute import StartCompute
from bough.operations.actions.suspend_compute import SuspendCompute
from bough.operations.actions.unarchive_branch import UnarchiveBranch
from operations import snapshot_scenarios
from support.platform import Platform


@dataclass(frozen=True)
class Scenario:
    operation: NewOperation
    expects_compute: bool  # whether a compute runs when the action succeeded


async def _rows_only(platform: Platform) -> tuple[ProjectId, BranchId, EndpointId]:
    """The rows of a project, without a volume and without open operations."""
    made = await create_project(await platform.create_context(), RequestedProject())
    async with platform.store.transaction() as rows:
        for operation in made.operations:
            ended = replace(operation, status="cancelled", ended_at=clock.now())  # type: ignore[arg-type]
            await rows.operations.save(ended)
        await rows.endpoints.save(replace(made.endpoint, pending_state=None))
    return made.project.id, made.branch.id, made.endpoint.id


async def _running(platform: Platform) -> tuple[ProjectId, BranchId, EndpointId]:
    made: dict[str, Any] = await platform.create_ready_project()
    return ProjectId(made["project"]["id"]), BranchId(made["branch"]["id"]), EndpointId(made["endpoints"][0]["id"])


async def _create_root_branch(platform: Platform) -> Scenario:
    project, branch, _ = await _rows_only(platform)
    return Scenario(NewOperation(CreateRootBranch, project, branch), expects_compute=False)


async def _suspended(platform: Platform) -> tuple[ProjectId, BranchId, EndpointId]:
    project, branch, endpoint = await _running(platform)
    async with platform.store.transaction() as rows:
        found = await rows.endpoints.get(endpoint)
        assert found
        await rows.endpoints.save(replace(found, state=EndpointState.IDLE))
    await platform.engine.ensure_suspended(endpoint)
    return project, branch, endpoint


async def _start_compute(platform: Platform) -> Scenario:
    project, branch, endpoint = await _suspended(platform)
    return Scenario(NewOperation(StartCompute, project, branch, endpoint), expects_compute=True)


async def _suspend_compute(platform: Platform) -> Scenario:
    project, branch, endpoint = await _running(platform)
    return Scenario(NewOperation(SuspendCompute, project, branch, endpoint), expects_compute=False)


async def _apply_config(platform: Platform) -> Scenario:
    project, branch, endpoint = await _running(platform)
    return Scenario(NewOperation(ApplyConfig, project, branch, endpoint), expects_compute=True)


async def _make_read_only(platform: Platform) -> Scenario:
    """On a branch that has become overfull."""
    project, branch, endpoint = await _running(platform)
    async with platform.store.transaction() as rows:
        await rows.allowances.set_fullness(branch, Fullness.OVERFULL, 1)
    return Scenario(NewOperation(ApplyConfig, project, branch, endpoint), expects_compute=True)


async def _create_branch(platform: Platform) -> Scenario:
    """At a point in the history of a protected parent, so that every step has something to do."""
    project, parent, _ = await _suspended(platform)
    point = Point(at=clock.now())
    async with platform.store.transaction() as rows:
        found = await rows.branches.get(project, parent)
        assert found
        await rows.branches.save(replace(found, is_protected=True))
    held = await _get_project(platform, project)
    made = await create_branch(await platform.create_context(), held, RequestedBranch(parent_id=parent, point=point))
    assert len(made.operations) == 1
    return await _take_back(platform, made.operations)


async def _restore_branch(platform: Platform) -> Scenario:
    """To its own history while its compute runs; its child moves to the branch that preserves the old data."""
    project, branch, _ = await _running(platform)
    held = await _get_project(platform, project)
    await create_branch(await platform.create_context(), held, RequestedBranch(parent_id=branch))
    await platform.run_operations()
    requested = RequestedRestore(source_id=branch, point=Point(at=clock.now()), preserve_under_name="kept")
    _, operations = await restore_branch(await platform.create_context(), held, branch, requested)
    return await _take_back(platform, operations)


async def _reset_branch(platform: Platform) -> Scenario:
    """Reset a suspended child from its parent; its old volume is retired."""
    project, parent, _ = await _suspended(platform)
    held = await _get_project(platform, project)
    made = await create_branch(await platform.create_context(), held, RequestedBranch(parent_id=parent))
    await platform.run_operations()
    requested = RequestedRestore(source_id=parent, point=HEAD)
    _, operations = await restore_branch(await platform.create_context(), held, made.branch.id, requested)
    return await _take_back(platform, operations)


async def _take_back(platform: Platform, operations: list[Operation]) -> Scenario:
    return Scenario(await snapshot_scenarios.take_back(platform, operations), expects_compute=False)


async def _change_roles(platform: Platform) -> Scenario:
    """On a suspended branch, where a temporary compute applies the change."""
    project, branch, endpoint = await _suspended(platform)
    params = ChangeCatalogParams(change=CreateDatabase(name="made", owner="neondb_owner"))
    return Scenario(NewOperation(ChangeCatalog, project, branch, endpoint, params), expects_compute=False)


async def _get_project(platform: Platform, project_id: ProjectId) -> Project:
    async with platform.store.read() as rows:
        found = await rows.projects.get(project_id)
    assert found
    return found


async def _delete_branch(platform: Platform) -> Scenario:
    project, branch, _ = await _running(platform)
    async with platform.store.transaction() as rows:
        found = await rows.projects.get(project)
        assert found
        await rows.projects.save(replace(found, deleted_at=clock.now(), recoverable_until=clock.now()))
    return Scenario(NewOperation(DeleteBranch, project, branch), expects_compute=False)


async def _shorten_retention(platform: Platform) -> Scenario:
    """In a project whose history retention becomes 0."""
    project, _, _ = await _suspended(platform)
    async with platform.store.transaction() as rows:
        found = await rows.projects.get(project)
        assert found
        await rows.projects.save(replace(found, history_retention_seconds=0))
    return Scenario(NewOperation(ApplyHistoryRetention, project), expects_compute=False)


async def _create_snapshot(platform: Platform) -> Scenario:
    return Scenario(await snapshot_scenarios.prepare_create_snapshot(platform), expects_compute=False)


async def _delete_snapshot(platform: Platform) -> Scenario:
    return Scenario(await snapshot_scenarios.prepare_delete_snapshot(platform), expects_compute=False)


async def _finalize_restore(platform: Platform) -> Scenario:
    return Scenario(await snapshot_scenarios.prepare_finalize_restore(platform), expects_compute=False)


async def _archive_branch(platform: Platform) -> Scenario:
    project, branch, _ = await _suspended(platform)
    return Scenario(NewOperation(ArchiveBranch, project, branch), expects_compute=False)


async def _unarchive_branch(platform: Platform) -> Scenario:
    project, branch, _ = await _suspended(platform)
    async with platform.store.transaction() as rows:
        found = await rows.branches.get(project, branch)
        assert found
        await rows.branches.save(replace(found, state=BranchState.ARCHIVED))
    await platform.engine.ensure_packed(project, found.volume_id)
    return Scenario(NewOperation(UnarchiveBranch, project, branch), expects_compute=False)


SCENARIOS: tuple[tuple[ActionType, Callable[[Platform], Awaitable[Scenario]]], ...] = (
    (CreateRootBranch, _create_root_branch),
    (CreateBranch, _create_branch),
    (RestoreBranch, _restore_branch),
    (RestoreBranch, _reset_branch),
    (StartCompute, _start_compute),
    (SuspendCompute, _suspend_compute),
    (ApplyConfig, _apply_config),
    (ChangeCatalog, _change_roles),
    (ApplyConfig, _make_read_only),
    (ApplyHistoryRetention, _shorten_retention),
    (DeleteBranch, _delete_branch),
    (ArchiveBranch, _archive_branch),
    (UnarchiveBranch, _unarchive_branch),
    (CreateSnapshot, _create_snapshot),
    (DeleteSnapshot, _delete_snapshot),
    (FinalizeRestore, _finalize_restore),
)
