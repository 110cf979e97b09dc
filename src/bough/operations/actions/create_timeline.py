"""Create the root branch of a project.

Its volume is cloned from the template of the project's install, then the branch is published.
Until then no compute can open it, so a failed clone is invisible.
"""

from bough import clock
from bough.domain.branch import BranchState, moved
from bough.domain.operation import OperationAction
from bough.engine.spec import branch_spec
from bough.operations.action import Action, step
from bough.operations.context import Context
from bough.operations.outcome import Done, Goto, Outcome


class CreateTimeline(Action):
    action = OperationAction.CREATE_TIMELINE

    @step(undo="drop_volume")
    async def make_volume(self, ctx: Context) -> Outcome:
        project = await ctx.project(self.project_id)
        await ctx.engine.ensure_branch(branch_spec(project, await ctx.branch(self.project_id, self.branch_id)))
        return Goto(self.publish)

    async def drop_volume(self, ctx: Context) -> None:
        branch = await ctx.branch(self.project_id, self.branch_id)
        await ctx.engine.ensure_absent(self.project_id, branch.volume_id)

    @step(undo="withdraw")
    async def publish(self, ctx: Context) -> Outcome:
        branch = await ctx.branch(self.project_id, self.branch_id)
        async with ctx.transaction() as rows:
            await rows.branches.save(moved(branch, BranchState.READY, clock.now()))
        return Done("the branch is ready")

    async def withdraw(self, ctx: Context) -> None:
        branch = await ctx.branch(self.project_id, self.branch_id)
        async with ctx.transaction() as rows:
            await rows.branches.save(moved(branch, BranchState.INIT, clock.now()))
