"""Remove a branch for good: its computes, its data, its history, its rows.

Of a branch that was deleted its own row stays, so that it can be listed among those that were. What another branch
can still go back to, or stands on, is not removed with it: it is retired, and a task removes it when nobody needs it.
When the whole project can no longer be recovered everything goes: with the last branch whatever is left, snapshots
and retired volumes too, and then the project itself is forgotten; only its id and its operations remain, so that the
id is never given again.
"""

from collections.abc import Iterable
from functools import partial

from bough import clock
from bough.domain.branch import Branch, BranchState
from bough.domain.operation import OperationAction
from bough.domain.project import Project
from bough.engine.port import EngineError, VolumeHasDependents
from bough.ids import VolumeId
from bough.operations import usage_measurement
from bough.operations.action import Action, step
from bough.operations.context import ActionContext
from bough.operations.outcome import Done, Goto, Outcome
from bough.store.store import Rows

WITH_PROJECT_KEY = "with_project"  # the parameter of a branch whose project goes as a whole


class DeleteBranch(Action):
    action = OperationAction.DELETE_TIMELINE
    is_forward_only = True

    @step
    async def stop(self, ctx: ActionContext) -> Outcome:
        """Read replicas first: they follow the others."""
        async with ctx.read() as rows:
            endpoints = await rows.endpoints.list_with_deleted(self.branch_id)
        for endpoint in sorted(endpoints, key=lambda each: each.volume_id is None):
            if usage := await usage_measurement.measure_usage(ctx.engine, endpoint):
                async with ctx.transaction() as rows:
                    await usage_measurement.record_usage(rows, endpoint, usage)
            await ctx.engine.ensure_suspended(endpoint.id)
            if endpoint.volume_id is not None:
                await ctx.engine.ensure_absent(self.project_id, endpoint.volume_id)
        return Goto(self.remove)

    @step
    async def remove(self, ctx: ActionContext) -> Outcome:
        async with ctx.read() as rows:
            project = await rows.projects.get(self.project_id)
            branch = await rows.branches.get(self.project_id, self.branch_id)
            with_project = (
                bool(self.operation.parameters.get(WITH_PROJECT_KEY)) or project is None or _is_being_purged(project)
            )
            own, needed = await _volumes(rows, branch) if branch else ([], [])
        left = [*needed, *await self._drop_volumes(ctx, [*own, *needed] if with_project else own)]
        if not with_project:
            if branch is not None and branch.volume_id in left and branch.state is BranchState.ARCHIVED:
                await ctx.engine.ensure_unpacked(self.project_id, branch.volume_id)  # so that it can be retired
            return Done("the branch is gone", writes=partial(self.clear, branch, left))
        async with ctx.transaction() as rows:
            await rows.projects.lock(self.project_id)  # of two that are the last, one sees that it is
            await rows.branches.delete(self.branch_id, kept_volumes=left)
            others = await rows.branches.list_with_deleted(self.project_id)
        return Done("the branch is gone") if others else Goto(self.sweep)

    @step
    async def sweep(self, ctx: ActionContext) -> Outcome:
        """Whatever the project has left, in as many rounds as volumes stand on one another."""
        async with ctx.read() as rows:
            left = await rows.lineages.list_volume_ids(self.project_id)
        while left:
            still = await self._drop_volumes(ctx, left)
            if len(still) == len(left):
                raise EngineError("Volumes of a deleted project stand on one another, and none of them can go.")
            left = still
        return Done("the project is gone", writes=self.purge)

    async def clear(self, branch: Branch | None, left: list[VolumeId], rows: Rows) -> None:
        now = clock.now()
        await self._stop_counting(rows)
        if branch is not None and branch.volume_id in left:
            await rows.lineages.retire_volume(branch.volume_id, now)
        history = [past.lineage.volume_id for past in await rows.lineages.list_ranges(self.branch_id)]
        await rows.branches.delete_contents(self.branch_id)
        await rows.lineages.remove_volumes([volume for volume in history if volume not in left])

    async def purge(self, rows: Rows) -> None:
        await rows.projects.purge(self.project_id, clock.now())

    async def _drop_volumes(self, ctx: ActionContext, volumes: Iterable[VolumeId]) -> list[VolumeId]:
        """Those that could not go yet."""
        left = []
        for volume in volumes:
            try:
                await ctx.engine.ensure_absent(self.project_id, volume)
            except VolumeHasDependents:
                left.append(volume)
        return left

    async def _stop_counting(self, rows: Rows) -> None:
        for endpoint in await rows.endpoints.list_with_deleted(self.branch_id):
            await rows.usage.stop_metering(endpoint, clock.now())


def _is_being_purged(project: Project) -> bool:
    """Whether all of it goes, and not this branch alone, for work that an earlier version wrote down."""
    return project.deleted_at is not None and not project.is_recoverable(clock.now())


async def _volumes(rows: Rows, branch: Branch) -> tuple[list[VolumeId], list[VolumeId]]:
    """What it was and is, the newest first, because that stands on what was before: what nobody else can go back to,
    and what is a part of another branch's history too.
    """
    own: list[VolumeId] = []
    shared: list[VolumeId] = []
    past = await rows.lineages.list_ranges(branch.id)
    for lineage in reversed([each.lineage for each in past]):
        others = [holder for holder in await rows.lineages.list_branches(lineage.id) if holder.id != branch.id]
        (shared if others else own).append(lineage.volume_id)
    if branch.volume_id not in (*own, *shared):  # its history is cleared already
        own.insert(0, branch.volume_id)
    return list(dict.fromkeys(own)), list(dict.fromkeys(shared))
