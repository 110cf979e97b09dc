"""Create the root branch of a project.

Its volume is cloned from the template of the project's install, then the branch is published, and its history begins.
Until then no compute can open it, so a failed clone is invisible.
"""

from functools import partial

from bough import clock
from bough.domain.branch import BranchState, moved
from bough.domain.operation import OperationAction
from bough.engine.port import Origin
from bough.operations.action import Action, step
from bough.operations.context import Context, there
from bough.operations.outcome import Done, Outcome
from bough.store.store import Rows


class CreateTimeline(Action):
    action = OperationAction.CREATE_TIMELINE

    @step(undo="drop_volume")
    async def make_volume(self, ctx: Context) -> Outcome:
        origin = await ctx.engine.ensure_branch(await ctx.branch_spec(self.project_id, self.branch_id))
        return Done("the branch is ready", writes=partial(self.publish, origin))

    async def drop_volume(self, ctx: Context) -> None:
        branch = await ctx.branch(self.project_id, self.branch_id)
        await ctx.engine.ensure_absent(self.project_id, branch.volume_id)

    async def publish(self, origin: Origin, rows: Rows) -> None:
        branch = there(await rows.branches.get(self.project_id, self.branch_id), "branch")
        now = clock.now()
        await rows.branches.save(moved(branch, BranchState.READY, now))
        await rows.lineages.begin(branch.volume_id, now, origin.lsn)
