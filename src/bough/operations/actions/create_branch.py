"""Create a branch from its parent's data.

Its volume is cloned while the parent goes on serving. What belongs to the parent alone is taken out of it before
anybody can open it: its subscriptions and, of a protected parent, its passwords; and all rows, when only its
structure was asked for. Then the branch is published.
"""

from dataclasses import replace
from functools import partial

from bough import clock
from bough.domain.branch import SCHEMA_ONLY, BranchState, moved
from bough.domain.change import Empty, Rekey, Unsubscribe
from bough.domain.operation import OperationAction
from bough.engine.port import Origin
from bough.operations import contents
from bough.operations.action import Action, step
from bough.operations.context import Context, there
from bough.operations.outcome import Done, Goto, Outcome
from bough.store.store import Rows

REKEYS = "rekeys"  # the parameter of a branch whose parent's passwords shall not open it


class CreateBranch(Action):
    action = OperationAction.CREATE_BRANCH

    @step(undo="drop_volume")
    async def make_volume(self, ctx: Context) -> Outcome:
        """The parent's roles and databases are looked at first: what they are then is in the copy."""
        branch = await ctx.branch(self.project_id, self.branch_id)
        spec = await ctx.branch_spec(self.project_id, self.branch_id)
        async with ctx.read() as rows:
            parent = there(await rows.branches.get(self.project_id, branch.parent_id or branch.id), "branch")
            serving = await rows.endpoints.read_write(parent.id)
        seen = await ctx.look_at_contents(serving) if serving else None
        origin = await ctx.engine.ensure_branch(spec)
        if seen is not None:
            async with ctx.transaction() as rows:
                await contents.begin_with(rows, branch.id, seen.now, rekeyed=self._rekeys)
        if self._rekeys or origin.subscribes or branch.init_source == SCHEMA_ONLY:
            return Goto(self.part)
        return Done("the branch is ready", writes=partial(self.publish, origin))

    @step
    async def part(self, ctx: Context) -> Outcome:
        """It is nobody's but its own from now on."""
        spec = await ctx.branch_spec(self.project_id, self.branch_id)
        origin = await ctx.engine.ensure_branch(spec)
        if origin.subscribes:
            await ctx.engine.change(spec, Unsubscribe())
        branch = await ctx.branch(self.project_id, self.branch_id)
        if branch.init_source == SCHEMA_ONLY:
            await ctx.engine.change(spec, Empty())
        if self._rekeys:
            async with ctx.read() as rows:
                roles = await rows.roles.of_branch(self.branch_id)
            verifiers = {role.name: role.verifier for role in roles if role.is_wished and role.verifier is not None}
            await ctx.engine.change(spec, Rekey(verifiers=verifiers))
        return Done("the branch is ready", writes=partial(self.publish, origin))

    @property
    def _rekeys(self) -> bool:
        return bool(self.operation.parameters.get(REKEYS))

    async def drop_volume(self, ctx: Context) -> None:
        """A branch that could not be made is as good as deleted, and its name is free again."""
        branch = await ctx.branch(self.project_id, self.branch_id)
        await ctx.engine.ensure_absent(self.project_id, branch.volume_id)
        now = clock.now()
        async with ctx.transaction() as rows:
            await rows.branches.save(replace(branch, deleted_at=now, deletion_method="user", updated_at=now))
            await rows.branches.clear(branch.id)
            for endpoint in await rows.endpoints.of_branch(branch.id):
                await rows.endpoints.save(replace(endpoint, deleted_at=now, pending_state=None, updated_at=now))

    async def publish(self, origin: Origin, rows: Rows) -> None:
        branch = there(await rows.branches.get(self.project_id, self.branch_id), "branch")
        parent = await rows.branches.get(self.project_id, branch.parent_id) if branch.parent_id else None
        now = clock.now()
        for role in await rows.roles.of_branch(branch.id) if self._rekeys else []:
            await rows.roles.set_told(branch.id, role.name, role.verifier, now)
        made = moved(branch, BranchState.READY, now)
        if parent is not None and branch.init_source != SCHEMA_ONLY:
            made = replace(made, fullness=parent.fullness, stored_bytes=parent.stored_bytes)
        await rows.branches.save(
            replace(
                made,
                parent_lsn=origin.lsn,
                parent_timestamp=origin.at,
                logical_size=parent.logical_size if parent and branch.init_source != SCHEMA_ONLY else None,
                wal_position=origin.position,
            )
        )
