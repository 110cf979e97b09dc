"""Create the root branch of a project.

Its volume is cloned from the template of the project's Postgres version. Then the branch is published and its history
starts. No compute can open it before, so a failed clone has no effect.
"""

from dataclasses import replace
from functools import partial

from bough import clock
from bough.domain.branch import BranchState, transition_branch
from bough.domain.locks import LockLevel, LockRequest
from bough.domain.operation import OperationKind
from bough.engine.port import Origin
from bough.operations.action import Action, step
from bough.operations.context import ActionContext, require_found
from bough.operations.outcome import Done, Outcome
from bough.operations.params import NoParams
from bough.store.store import Rows


class CreateRootBranch(Action[NoParams]):
    kind = OperationKind.CREATE_ROOT_BRANCH

    @classmethod
    def locks(cls, params: NoParams, step: str | None) -> LockRequest:
        return LockRequest(level=LockLevel.BRANCH, creates_branch=True)

    async def drop_volume(self, ctx: ActionContext) -> None:
        branch = await ctx.get_branch(self.project_id, self.branch_id)
        await ctx.branch_engine.ensure_absent(self.project_id, branch.volume_id)

    @step(undo=drop_volume)
    async def make_volume(self, ctx: ActionContext) -> Outcome:
        origin = await ctx.branch_engine.ensure_branch(await ctx.build_branch_spec(self.project_id, self.branch_id))
        return Done("the branch is ready", writes=partial(self.publish, origin))

    async def publish(self, origin: Origin, rows: Rows) -> None:
        branch = require_found(await rows.branches.get(self.project_id, self.branch_id), "branch")
        now = clock.now()
        # What is written from here on counts as written by the project.
        ready = replace(transition_branch(branch, BranchState.READY, now), wal_position=origin.position)
        await rows.branches.save(ready)
        await rows.lineages.set_history_start(branch.volume_id, now, origin.lsn)
