"""Remove a branch for good: its computes, its data, its rows.

Of a branch that was deleted its own row stays, so that it can be listed among those that were. When the whole
project can no longer be recovered everything goes, and with the last branch the project itself is forgotten; only
its id and its operations remain, so that the id is never given again.
"""

from bough import clock
from bough.domain.operation import OperationAction
from bough.operations import measuring
from bough.operations.action import Action, step
from bough.operations.context import Context
from bough.operations.outcome import Done, Goto, Outcome
from bough.store.store import Rows


class DeleteTimeline(Action):
    action = OperationAction.DELETE_TIMELINE
    forward_only = True

    @step
    async def stop(self, ctx: Context) -> Outcome:
        """Read replicas first: they follow the others."""
        async with ctx.read() as rows:
            endpoints = await rows.endpoints.every_of(self.branch_id)
        for endpoint in sorted(endpoints, key=lambda each: each.volume_id is None):
            if usage := await measuring.measure(ctx.engine, endpoint):
                async with ctx.transaction() as rows:
                    await measuring.note(rows, endpoint, usage)
            await ctx.engine.ensure_suspended(endpoint.id)
            if endpoint.volume_id is not None:
                await ctx.engine.ensure_absent(self.project_id, endpoint.volume_id)
        return Goto(self.remove)

    @step
    async def remove(self, ctx: Context) -> Outcome:
        async with ctx.read() as rows:
            branch = await rows.branches.get(self.project_id, self.branch_id)
        if branch is not None:
            await ctx.engine.ensure_absent(self.project_id, branch.volume_id)
        return Done("the branch is gone", writes=self.forget)

    async def forget(self, rows: Rows) -> None:
        project = await rows.projects.get(self.project_id)
        now = clock.now()
        for endpoint in await rows.endpoints.every_of(self.branch_id):
            await rows.usage.stop_counting(endpoint, now)
        if project is not None and project.deleted_at is None:
            await rows.branches.clear(self.branch_id)
            return
        await rows.branches.forget(self.branch_id)
        if not await rows.branches.every_of(self.project_id):
            await rows.projects.set_purged(self.project_id, now)
