"""Unarchive a branch, because a client uses it or one of its descendants.

There is no undo: an unpacked branch that is still marked as archived is safe, and unarchiving it again is quick.
"""

from bough import clock
from bough.domain.branch import BranchState, transition_branch
from bough.domain.locks import LockLevel, LockRequest
from bough.domain.operation import OperationKind
from bough.operations.action import Action, step
from bough.operations.context import ActionContext, require_found
from bough.operations.outcome import Done, Outcome
from bough.operations.params import NoParams
from bough.store.store import Rows


class UnarchiveBranch(Action[NoParams]):
    kind = OperationKind.UNARCHIVE_BRANCH

    @classmethod
    def locks(cls, params: NoParams, step: str | None) -> LockRequest:
        return LockRequest(level=LockLevel.BRANCH)

    @step
    async def unpack(self, ctx: ActionContext) -> Outcome:
        branch = await ctx.get_branch(self.project_id, self.branch_id)
        if branch.state is not BranchState.ARCHIVED:
            return Done("the branch is not archived", has_changed=False)
        await ctx.branch_engine.ensure_unpacked(self.project_id, branch.volume_id)
        return Done("the branch is unarchived", writes=self.publish)

    async def publish(self, rows: Rows) -> None:
        branch = require_found(await rows.branches.get(self.project_id, self.branch_id), "branch")
        await rows.branches.save(transition_branch(branch, BranchState.READY, clock.now()))
