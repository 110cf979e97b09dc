"""Bring an archived branch back, because somebody uses it or one of its descendants.

There is nothing to undo: a branch whose data is back and that is still called archived is safe, and is brought back
in no time when it is asked for again.
"""

from bough import clock
from bough.domain.branch import BranchState, transition_branch
from bough.domain.operation import OperationAction
from bough.operations.action import Action, step
from bough.operations.context import ActionContext, require_found
from bough.operations.outcome import Done, Outcome
from bough.store.store import Rows


class UnarchiveBranch(Action):
    action = OperationAction.TIMELINE_UNARCHIVE

    @step
    async def unpack(self, ctx: ActionContext) -> Outcome:
        branch = await ctx.get_branch(self.project_id, self.branch_id)
        if branch.state is not BranchState.ARCHIVED:
            return Done("the branch is not archived", has_changed=False)
        await ctx.engine.ensure_unpacked(self.project_id, branch.volume_id)
        return Done("the branch is back", writes=self.publish)

    async def publish(self, rows: Rows) -> None:
        branch = require_found(await rows.branches.get(self.project_id, self.branch_id), "branch")
        await rows.branches.save(transition_branch(branch, BranchState.READY, clock.now()))
