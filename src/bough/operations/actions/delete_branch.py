"""Delete the data of a branch for good: its computes, its volumes, its history, its rows.

The row of a deleted branch stays, so that deleted branches can be listed. Volumes that another branch still needs,
because it can be restored to them or was created from them, are not removed but retired; a task removes them when no
branch needs them. When the whole project is purged, everything goes: the last branch also removes snapshots and
retired volumes, and then the project itself. Only its id and its operations remain, so that the id is never reused.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from bough import clock
from bough.domain.branch import Branch, BranchState
from bough.domain.locks import LockLevel, LockRequest
from bough.domain.operation import OperationKind
from bough.domain.project import Project
from bough.engine.port import EngineError, VolumeHasDependents
from bough.ids import VolumeId
from bough.operations import usage_measurement
from bough.operations.action import Action, step
from bough.operations.context import ActionContext
from bough.operations.outcome import Done, Goto, Outcome
from bough.operations.params import Params
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteBranchParams(Params):
    with_project: bool = False  # the whole project is purged

    def to_stored(self) -> dict[str, Any]:
        return {"with_project": True} if self.with_project else {}

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any], version: int) -> Self:
        return cls(with_project=bool(stored.get("with_project")))


class DeleteBranch(Action[DeleteBranchParams]):
    kind = OperationKind.DELETE_BRANCH
    params_type = DeleteBranchParams
    is_forward_only = True

    @classmethod
    def locks(cls, params: DeleteBranchParams, step: str | None) -> LockRequest:
        return LockRequest(level=LockLevel.BRANCH)

    @step
    async def stop(self, ctx: ActionContext) -> Outcome:
        """Stop read replicas first, because they follow the read-write compute."""
        async with ctx.read() as rows:
            endpoints = await rows.endpoints.list_with_deleted(self.branch_id)
        for endpoint in sorted(endpoints, key=lambda each: each.volume_id is None):
            if usage := await usage_measurement.measure_usage(ctx.engine_inspection, endpoint):
                async with ctx.transaction() as rows:
                    await usage_measurement.record_usage(rows, endpoint, usage)
            await ctx.compute_engine.ensure_suspended(endpoint.id)
            if endpoint.volume_id is not None:
                await ctx.branch_engine.ensure_absent(self.project_id, endpoint.volume_id)
        return Goto(self.remove)

    @step
    async def remove(self, ctx: ActionContext) -> Outcome:
        async with ctx.read() as rows:
            project = await rows.projects.get(self.project_id)
            branch = await rows.branches.get(self.project_id, self.branch_id)
            with_project = self.params.with_project or project is None or _is_being_purged(project)
            own, shared = await _list_volumes(rows, branch) if branch else ([], [])
        remaining = [*shared, *await self._drop_volumes(ctx, [*own, *shared] if with_project else own)]
        if not with_project:
            if branch is not None and branch.volume_id in remaining and branch.state is BranchState.ARCHIVED:
                await ctx.branch_engine.ensure_unpacked(
                    self.project_id, branch.volume_id
                )  # only an unpacked volume can be retired
            return Done("the branch is deleted", writes=partial(self.record_deletion, branch, remaining))
        async with ctx.transaction() as rows:
            await rows.projects.lock(self.project_id)  # of the last two branches, one sees that it is the last
            await rows.branches.delete(self.branch_id, kept_volumes=remaining)
            others = await rows.branches.list_with_deleted(self.project_id)
        return Done("the branch is deleted") if others else Goto(self.sweep)

    @step
    async def sweep(self, ctx: ActionContext) -> Outcome:
        """Remove all remaining volumes, in rounds: a volume can go only after those that were created from it."""
        async with ctx.read() as rows:
            remaining = await rows.lineages.list_volume_ids(self.project_id)
        while remaining:
            undeleted = await self._drop_volumes(ctx, remaining)
            if len(undeleted) == len(remaining):
                raise EngineError("No volume of the deleted project can be removed: they depend on one another.")
            remaining = undeleted
        return Done("the project is purged", writes=self.purge)

    async def record_deletion(self, branch: Branch | None, remaining: list[VolumeId], rows: Rows) -> None:
        now = clock.now()
        await self._stop_metering(rows)
        if branch is not None and branch.volume_id in remaining:
            await rows.lineages.retire_volume(branch.volume_id, now)
        history = [each.lineage.volume_id for each in await rows.lineages.list_ranges(self.branch_id)]
        await rows.branches.delete_contents(self.branch_id)
        await rows.lineages.remove_volumes([volume for volume in history if volume not in remaining])

    async def purge(self, rows: Rows) -> None:
        await rows.projects.purge(self.project_id, clock.now())

    async def _drop_volumes(self, ctx: ActionContext, volumes: Iterable[VolumeId]) -> list[VolumeId]:
        """Return the volumes that cannot be removed yet."""
        remaining = []
        for volume in volumes:
            try:
                await ctx.branch_engine.ensure_absent(self.project_id, volume)
            except VolumeHasDependents:
                remaining.append(volume)
        return remaining

    async def _stop_metering(self, rows: Rows) -> None:
        for endpoint in await rows.endpoints.list_with_deleted(self.branch_id):
            await rows.usage.stop_metering(endpoint, clock.now())


def _is_being_purged(project: Project) -> bool:
    """For operations of versions that did not store `with_project`."""
    return project.deleted_at is not None and not project.is_recoverable(clock.now())


async def _list_volumes(rows: Rows, branch: Branch) -> tuple[list[VolumeId], list[VolumeId]]:
    """Return the volumes of the branch's history: those that only it uses, and those that other branches use too.

    Newest first, because a volume depends on older ones.
    """
    own: list[VolumeId] = []
    shared: list[VolumeId] = []
    ranges = await rows.lineages.list_ranges(branch.id)
    for lineage in reversed([each.lineage for each in ranges]):
        others = [other for other in await rows.lineages.list_branches(lineage.id) if other.id != branch.id]
        (shared if others else own).append(lineage.volume_id)
    if branch.volume_id not in (*own, *shared):  # its history is cleared already
        own.insert(0, branch.volume_id)
    return list(dict.fromkeys(own)), list(dict.fromkeys(shared))
