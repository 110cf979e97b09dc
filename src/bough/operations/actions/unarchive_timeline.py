"""Bring an archived branch back, because somebody uses it or one of its descendants.

There is nothing to undo: a branch whose data is back and that is still called archived is safe, and is brought back
in no time when it is asked for again.
"""

from bough import clock
from bough.domain.branch import BranchState, moved
from bough.domain.operation import OperationAction
from bough.operations.action import Action, step
from bough.operations.context import Context, there
from bough.operations.outcome import Done, Outcome
from bough.store.store import Rows


class UnarchiveTimeline(Action):
    action = OperationAction.TIMELINE_UNARCHIVE

    @step
    async def unpack(self, ctx: Context) -> Outcome:
        branch = await ctx.branch(self.project_id, self.branch_id)
        if branch.state is not BranchState.ARCHIVED:
            return Done("the branch is not archived", changed=False)
        await ctx.engine.ensure_unpacked(self.project_id, branch.volume_id)
        return Done("the branch is back", writes=self.publish)

    async def publish(self, rows: Rows) -> None:
        branch = there(await rows.branches.get(self.project_id, self.branch_id), "branch")
        await rows.branches.save(moved(branch, BranchState.READY, clock.now()))
