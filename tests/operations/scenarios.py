"""For each action the state it begins in, on a real platform, and the wish that starts it.

A new action joins the generic tests by adding its scenario here; a test fails until it does.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from bough import clock
from bough.control.projects import NewProject, Projects
from bough.domain.endpoint import EndpointState
from bough.domain.operation import OperationAction
from bough.ids import BranchId, EndpointId, ProjectId
from bough.operations.action import Action, Wish
from bough.operations.actions.apply_config import ApplyConfig
from bough.operations.actions.create_timeline import CreateTimeline
from bough.operations.actions.delete_timeline import DeleteTimeline
from bough.operations.actions.start_compute import StartCompute
from bough.operations.actions.suspend_compute import SuspendCompute
from world import Platform


@dataclass(frozen=True)
class Scene:
    wish: Wish
    wants_compute: bool  # whether a compute runs when the action succeeded


async def _rows_only(platform: Platform) -> tuple[ProjectId, BranchId, EndpointId]:
    """A project as rows, with nothing made and nothing queued."""
    made = await Projects(await platform.desk()).create(NewProject())
    async with platform.store.transaction() as rows:
        for operation in made.operations:
            ended = replace(operation, status="cancelled", ended_at=clock.now())  # type: ignore[arg-type]
            await rows.operations.save(ended)
        await rows.endpoints.save(replace(made.endpoint, pending_state=None))
    return made.project.id, made.branch.id, made.endpoint.id


async def _running(platform: Platform) -> tuple[ProjectId, BranchId, EndpointId]:
    made: dict[str, Any] = await platform.ready_project()
    return ProjectId(made["project"]["id"]), BranchId(made["branch"]["id"]), EndpointId(made["endpoints"][0]["id"])


async def _create_timeline(platform: Platform) -> Scene:
    project, branch, _ = await _rows_only(platform)
    return Scene(Wish(OperationAction.CREATE_TIMELINE, project, branch), wants_compute=False)


async def _start_compute(platform: Platform) -> Scene:
    project, branch, endpoint = await _running(platform)
    async with platform.store.transaction() as rows:
        found = await rows.endpoints.get(endpoint)
        assert found
        await rows.endpoints.save(replace(found, state=EndpointState.IDLE))
    await platform.engine.ensure_suspended(endpoint)
    return Scene(Wish(OperationAction.START_COMPUTE, project, branch, endpoint), wants_compute=True)


async def _suspend_compute(platform: Platform) -> Scene:
    project, branch, endpoint = await _running(platform)
    return Scene(Wish(OperationAction.SUSPEND_COMPUTE, project, branch, endpoint), wants_compute=False)


async def _apply_config(platform: Platform) -> Scene:
    project, branch, endpoint = await _running(platform)
    return Scene(Wish(OperationAction.APPLY_CONFIG, project, branch, endpoint), wants_compute=True)


async def _delete_timeline(platform: Platform) -> Scene:
    project, branch, _ = await _running(platform)
    async with platform.store.transaction() as rows:
        found = await rows.projects.get(project)
        assert found
        await rows.projects.save(replace(found, deleted_at=clock.now(), recoverable_until=clock.now()))
    return Scene(Wish(OperationAction.DELETE_TIMELINE, project, branch), wants_compute=False)


SCENES: dict[type[Action], Callable[[Platform], Awaitable[Scene]]] = {
    CreateTimeline: _create_timeline,
    StartCompute: _start_compute,
    SuspendCompute: _suspend_compute,
    ApplyConfig: _apply_config,
    DeleteTimeline: _delete_timeline,
}
