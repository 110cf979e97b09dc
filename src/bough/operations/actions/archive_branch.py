"""Put a branch away that nobody uses: its disk is given back as far as that goes, and on use it comes back.

The copies of its read replicas are thrown away; they are made again when they are wanted.
"""

from bough import clock
from bough.domain.branch import BranchState, transition_branch
from bough.domain.operation import OperationAction
from bough.operations.action import Action, step
from bough.operations.context import ActionContext, require_found
from bough.operations.outcome import Done, Outcome
from bough.store.store import Rows


class ArchiveBranch(Action):
    action = OperationAction.TIMELINE_ARCHIVE

    @step(undo="unpack")
    async def pack(self, ctx: ActionContext) -> Outcome:
        branch = await ctx.get_branch(self.project_id, self.branch_id)
        if branch.state is not BranchState.READY or branch.deleted_at is not None:
            return Done("there is nothing to archive", has_changed=False)
        async with ctx.read() as rows:
            endpoints = await rows.endpoints.list_in_branch(branch.id)
        for endpoint in endpoints:
            if endpoint.volume_id is not None:
                await ctx.engine.ensure_absent(self.project_id, endpoint.volume_id)
        await ctx.engine.ensure_packed(self.project_id, branch.volume_id)
        return Done("the branch is archived", writes=self.publish)

    async def unpack(self, ctx: ActionContext) -> None:
        branch = await ctx.get_branch(self.project_id, self.branch_id)
        if branch.state is BranchState.READY:
            await ctx.engine.ensure_unpacked(self.project_id, branch.volume_id)

    async def publish(self, rows: Rows) -> None:
        branch = require_found(await rows.branches.get(self.project_id, self.branch_id), "branch")
        await rows.branches.save(transition_branch(branch, BranchState.ARCHIVED, clock.now()))
