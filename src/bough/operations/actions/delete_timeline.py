"""Remove a branch of a deleted project for good: its computes, its data, its rows.

Runs when the project can no longer be recovered. With the last branch the project itself is
forgotten; only its id and its operations remain, so that the id is never given again.
"""

from bough import clock
from bough.domain.operation import OperationAction
from bough.operations.action import Action, step
from bough.operations.context import Context
from bough.operations.outcome import Done, Goto, Outcome
from bough.store.store import Rows


class DeleteTimeline(Action):
    action = OperationAction.DELETE_TIMELINE
    forward_only = True

    @step
    async def stop(self, ctx: Context) -> Outcome:
        async with ctx.read() as rows:
            endpoints = await rows.endpoints.of_branch(self.branch_id)
        for endpoint in endpoints:
            await ctx.engine.ensure_suspended(endpoint.id)
        return Goto(self.remove)

    @step
    async def remove(self, ctx: Context) -> Outcome:
        async with ctx.read() as rows:
            branch = await rows.branches.get(self.project_id, self.branch_id)
        if branch is not None:
            await ctx.engine.ensure_absent(self.project_id, branch.volume_id)
        return Done("the branch is gone", writes=self.forget)

    async def forget(self, rows: Rows) -> None:
        await rows.branches.forget(self.branch_id)
        if not await rows.branches.every_of(self.project_id):
            await rows.projects.set_purged(self.project_id, clock.now())
