"""For each action the states it begins in, on a real platform, and the wish that starts it.

A new action joins the generic tests by adding its scenario here; a test fails until it does.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from bough import clock
from bough.control.branches.branches import create_branch
from bough.control.branches.plan import NewBranch
from bough.control.projects.plan import NewProject
from bough.control.projects.projects import create_project
from bough.control.restores.restores import RequestedRestore, restore_branch
from bough.domain.allowance import Fullness
from bough.domain.branch import BranchState
from bough.domain.catalog_change import CreateDatabase, encode_change
from bough.domain.endpoint import EndpointState
from bough.domain.history import HEAD, Point
from bough.domain.operation import CHANGE_KEY, Operation, OperationAction, OperationStatus
from bough.domain.project import Project
from bough.ids import BranchId, EndpointId, ProjectId
from bough.operations.action import Action, NewOperation
from bough.operations.actions.apply_config import ApplyConfig
from bough.operations.actions.apply_history_retention import ApplyHistoryRetention
from bough.operations.actions.archive_branch import ArchiveBranch
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
    """A project as rows, with nothing made and nothing queued."""
    made = await create_project(await platform.create_context(), NewProject())
    async with platform.store.transaction() as rows:
        for operation in made.operations:
            ended = replace(operation, status="cancelled", ended_at=clock.now())  # type: ignore[arg-type]
            await rows.operations.save(ended)
        await rows.endpoints.save(replace(made.endpoint, pending_state=None))
    return made.project.id, made.branch.id, made.endpoint.id


async def _running(platform: Platform) -> tuple[ProjectId, BranchId, EndpointId]:
    made: dict[str, Any] = await platform.create_ready_project()
    return ProjectId(made["project"]["id"]), BranchId(made["branch"]["id"]), EndpointId(made["endpoints"][0]["id"])


async def _create_timeline(platform: Platform) -> Scenario:
    project, branch, _ = await _rows_only(platform)
    return Scenario(NewOperation(OperationAction.CREATE_TIMELINE, project, branch), expects_compute=False)


async def _sleeping(platform: Platform) -> tuple[ProjectId, BranchId, EndpointId]:
    project, branch, endpoint = await _running(platform)
    async with platform.store.transaction() as rows:
        found = await rows.endpoints.get(endpoint)
        assert found
        await rows.endpoints.save(replace(found, state=EndpointState.IDLE))
    await platform.engine.ensure_suspended(endpoint)
    return project, branch, endpoint


async def _start_compute(platform: Platform) -> Scenario:
    project, branch, endpoint = await _sleeping(platform)
    return Scenario(NewOperation(OperationAction.START_COMPUTE, project, branch, endpoint), expects_compute=True)


async def _suspend_compute(platform: Platform) -> Scenario:
    project, branch, endpoint = await _running(platform)
    return Scenario(NewOperation(OperationAction.SUSPEND_COMPUTE, project, branch, endpoint), expects_compute=False)


async def _apply_config(platform: Platform) -> Scenario:
    project, branch, endpoint = await _running(platform)
    return Scenario(NewOperation(OperationAction.APPLY_CONFIG, project, branch, endpoint), expects_compute=True)


async def _make_read_only(platform: Platform) -> Scenario:
    """On a branch that has become too full to be written."""
    project, branch, endpoint = await _running(platform)
    async with platform.store.transaction() as rows:
        await rows.allowances.set_fullness(branch, Fullness.OVERFULL, 1)
    return Scenario(NewOperation(OperationAction.APPLY_CONFIG, project, branch, endpoint), expects_compute=True)


async def _create_branch(platform: Platform) -> Scenario:
    """At a point of a protected parent: then every step has something to do."""
    project, parent, _ = await _sleeping(platform)
    point = Point(at=clock.now())
    async with platform.store.transaction() as rows:
        found = await rows.branches.get(project, parent)
        assert found
        await rows.branches.save(replace(found, is_protected=True))
    held = await _project(platform, project)
    made = await create_branch(await platform.create_context(), held, NewBranch(parent_id=parent, point=point))
    (operation,) = made.operations
    async with platform.store.transaction() as rows:
        await rows.operations.save(replace(operation, status=OperationStatus.CANCELLED, ended_at=clock.now()))
    parameters = dict(operation.parameters)
    return Scenario(
        NewOperation(OperationAction.CREATE_BRANCH, project, made.branch.id, None, parameters), expects_compute=False
    )


async def _restore_branch(platform: Platform) -> Scenario:
    """To a moment of its own history, while its compute runs; it has a child, which moves to the one that is kept."""
    project, branch, _ = await _running(platform)
    held = await _project(platform, project)
    await create_branch(await platform.create_context(), held, NewBranch(parent_id=branch))
    await platform.run_operations()
    wish = RequestedRestore(source_id=branch, point=Point(at=clock.now()), preserve_under_name="kept")
    _, operations = await restore_branch(await platform.create_context(), held, branch, wish)
    return await _take_back(platform, operations[0], operations)


async def _reset_branch(platform: Platform) -> Scenario:
    """Of a child that sleeps, from its parent: what it had is retired."""
    project, parent, _ = await _sleeping(platform)
    held = await _project(platform, project)
    made = await create_branch(await platform.create_context(), held, NewBranch(parent_id=parent))
    await platform.run_operations()
    wish = RequestedRestore(source_id=parent, point=HEAD)
    _, operations = await restore_branch(await platform.create_context(), held, made.branch.id, wish)
    return await _take_back(platform, operations[0], operations)


async def _take_back(platform: Platform, which: Operation, asked: list[Operation]) -> Scenario:
    """One of the operations that were asked for, alone."""
    async with platform.store.transaction() as rows:
        for operation in asked:
            await rows.operations.save(replace(operation, status=OperationStatus.CANCELLED, ended_at=clock.now()))
    wish = NewOperation(which.action, which.project_id, which.branch_id, None, dict(which.parameters))
    return Scenario(wish, expects_compute=False)


async def _change_roles(platform: Platform) -> Scenario:
    """On a branch that sleeps: then a compute of its own makes the change."""
    project, branch, endpoint = await _sleeping(platform)
    parameters = {CHANGE_KEY: encode_change(CreateDatabase(name="made", owner="neondb_owner"))}
    return Scenario(
        NewOperation(OperationAction.APPLY_CONFIG, project, branch, endpoint, parameters), expects_compute=False
    )


async def _project(platform: Platform, project_id: ProjectId) -> Project:
    async with platform.store.read() as rows:
        found = await rows.projects.get(project_id)
    assert found
    return found


async def _delete_timeline(platform: Platform) -> Scenario:
    project, branch, _ = await _running(platform)
    async with platform.store.transaction() as rows:
        found = await rows.projects.get(project)
        assert found
        await rows.projects.save(replace(found, deleted_at=clock.now(), recoverable_until=clock.now()))
    return Scenario(NewOperation(OperationAction.DELETE_TIMELINE, project, branch), expects_compute=False)


async def _shorten_retention(platform: Platform) -> Scenario:
    """Of a project that keeps no history from now on."""
    project, _, _ = await _sleeping(platform)
    async with platform.store.transaction() as rows:
        found = await rows.projects.get(project)
        assert found
        await rows.projects.save(replace(found, history_retention_seconds=0))
    return Scenario(NewOperation(OperationAction.APPLY_STORAGE_CONFIG, project), expects_compute=False)


async def _create_snapshot(platform: Platform) -> Scenario:
    return Scenario(await snapshot_scenarios.prepare_create_snapshot(platform), expects_compute=False)


async def _delete_snapshot(platform: Platform) -> Scenario:
    return Scenario(await snapshot_scenarios.prepare_delete_snapshot(platform), expects_compute=False)


async def _finalize_restore(platform: Platform) -> Scenario:
    return Scenario(await snapshot_scenarios.prepare_finalize_restore(platform), expects_compute=False)


async def _archive_timeline(platform: Platform) -> Scenario:
    project, branch, _ = await _sleeping(platform)
    return Scenario(NewOperation(OperationAction.TIMELINE_ARCHIVE, project, branch), expects_compute=False)


async def _unarchive_timeline(platform: Platform) -> Scenario:
    project, branch, _ = await _sleeping(platform)
    async with platform.store.transaction() as rows:
        found = await rows.branches.get(project, branch)
        assert found
        await rows.branches.save(replace(found, state=BranchState.ARCHIVED))
    await platform.engine.ensure_packed(project, found.volume_id)
    return Scenario(NewOperation(OperationAction.TIMELINE_UNARCHIVE, project, branch), expects_compute=False)


SCENARIOS: tuple[tuple[type[Action], Callable[[Platform], Awaitable[Scenario]]], ...] = (
    (CreateRootBranch, _create_timeline),
    (CreateBranch, _create_branch),
    (RestoreBranch, _restore_branch),
    (RestoreBranch, _reset_branch),
    (StartCompute, _start_compute),
    (SuspendCompute, _suspend_compute),
    (ApplyConfig, _apply_config),
    (ApplyConfig, _change_roles),
    (ApplyConfig, _make_read_only),
    (ApplyHistoryRetention, _shorten_retention),
    (DeleteBranch, _delete_timeline),
    (ArchiveBranch, _archive_timeline),
    (UnarchiveBranch, _unarchive_timeline),
    (CreateSnapshot, _create_snapshot),
    (DeleteSnapshot, _delete_snapshot),
    (FinalizeRestore, _finalize_restore),
)
