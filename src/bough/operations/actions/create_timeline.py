"""Create the root branch of a project.

Its volume is cloned from the template of the project's install, then the branch is published.
Until then no compute can open it, so a failed clone is invisible.
"""

from bough import clock
from bough.domain.branch import BranchState, moved
from bough.domain.operation import OperationAction
from bough.operations.action import Action, step
from bough.operations.context import Context, there
from bough.operations.outcome import Done, Outcome
from bough.store.store import Rows


class CreateTimeline(Action):
    action = OperationAction.CREATE_TIMELINE

    @step(undo="drop_volume")
    async def make_volume(self, ctx: Context) -> Outcome:
        await ctx.engine.ensure_branch(await ctx.branch_spec(self.project_id, self.branch_id))
        return Done("the branch is ready", writes=self.publish)

    async def drop_volume(self, ctx: Context) -> None:
        branch = await ctx.branch(self.project_id, self.branch_id)
        await ctx.engine.ensure_absent(self.project_id, branch.volume_id)

    async def publish(self, rows: Rows) -> None:
        branch = there(await rows.branches.get(self.project_id, self.branch_id), "branch")
        await rows.branches.save(moved(branch, BranchState.READY, clock.now()))
