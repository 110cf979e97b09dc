"""Archive an unused branch: compress its volume and free disk space. It is unarchived on use.

The copies of its read replicas are deleted; they are created again when a replica starts.
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


class ArchiveBranch(Action[NoParams]):
    kind = OperationKind.ARCHIVE_BRANCH

    @classmethod
    def locks(cls, params: NoParams, step: str | None) -> LockRequest:
        return LockRequest(level=LockLevel.BRANCH)

    async def unpack(self, ctx: ActionContext) -> None:
        branch = await ctx.get_branch(self.project_id, self.branch_id)
        if branch.state is BranchState.READY:
            await ctx.branch_engine.ensure_unpacked(self.project_id, branch.volume_id)

    @step(undo=unpack)
    async def pack(self, ctx: ActionContext) -> Outcome:
        branch = await ctx.get_branch(self.project_id, self.branch_id)
        if branch.state is not BranchState.READY or branch.deleted_at is not None:
            return Done("there is nothing to archive", has_changed=False)
        async with ctx.read() as rows:
            endpoints = await rows.endpoints.list_in_branch(branch.id)
        for endpoint in endpoints:
            if endpoint.volume_id is not None:
                await ctx.branch_engine.ensure_absent(self.project_id, endpoint.volume_id)
        await ctx.branch_engine.ensure_packed(self.project_id, branch.volume_id)
        return Done("the branch is archived", writes=self.publish)

    async def publish(self, rows: Rows) -> None:
        branch = require_found(await rows.branches.get(self.project_id, self.branch_id), "branch")
        await rows.branches.save(transition_branch(branch, BranchState.ARCHIVED, clock.now()))
