"""Restore a branch: it gets the data of a point in its own history, or of another branch.

The data is made in a new volume while the branch goes on serving. Then the branch is taken: its computes stop, and
in one transaction it gets the new volume, and what it had goes to the branch that preserves it. Its id, its endpoints
and its passwords stay. Whatever happens before that transaction, the branch is as it was.
"""

from dataclasses import replace
from functools import partial

from bough import clock
from bough.domain import history, restore_rules
from bough.domain.branch import Branch
from bough.domain.operation import (
    ALSO_LOCKED_KEY,
    RESUMES_KEY,
    SOURCE_KEY,
    OperationAction,
    Variant,
    lock_of,
    locks_conflict,
)
from bough.engine.spec import BranchSpec
from bough.errors import RuleViolation
from bough.ids import BranchId, EndpointId, VolumeId
from bough.operations import compute_shutdown, copied_volume, volume_switch
from bough.operations.action import Action, step
from bough.operations.compute_shutdown import StoppedCompute
from bough.operations.context import ActionContext, require_found
from bough.operations.outcome import Done, Goto, Outcome, Sleep
from bough.operations.volume_switch import VolumeSwitch
from bough.store.store import Rows

NEW_VOLUME_KEY = "makes_volume_id"  # the parameter that names the volume which the branch gets
DISCONNECT_REASON = "The branch is being restored to other data. Connect again in a moment."


class RestoreBranch(Action):
    action = OperationAction.CREATE_TIMELINE
    variant = Variant.RESTORE

    @step(undo="drop")
    async def prepare(self, ctx: ActionContext) -> Outcome:
        await ctx.engine.ensure_branch(await self._spec(ctx))
        return Goto(self.switch)

    async def drop(self, ctx: ActionContext) -> None:
        """The branch is as it was; the name of the one that was to preserve it is free again."""
        await ctx.engine.ensure_absent(self.project_id, self._volume_id)
        now = clock.now()
        async with ctx.transaction() as rows:
            await rows.lineages.remove_volume(self._volume_id)
            preserved = await rows.branches.get(self.project_id, self._preserved_id) if self._preserved_id else None
            if preserved is not None:
                await rows.branches.save(replace(preserved, deleted_at=now, deletion_method="user", updated_at=now))
                await rows.branches.delete_contents(preserved.id)

    @step(undo="resume")
    async def switch(self, ctx: ActionContext) -> Outcome:
        """Passwords that are changed with SQL until the last moment are kept too."""
        if await self._has_conflict(ctx):
            return Sleep(1.0, "other work on the branch goes on")
        branch = await ctx.get_branch(self.project_id, self.branch_id)
        await self._check_children(ctx, branch)
        spec = await self._spec(ctx)
        origin = await ctx.engine.ensure_branch(spec)
        passwords = copied_volume.verifiers_of(await compute_shutdown.read_contents(ctx, branch.id))
        source = await ctx.get_branch(self.project_id, self._source_id)
        await copied_volume.disable_subscriptions(ctx.engine, spec, origin)
        inside = await ctx.inspect_volume(spec, branch.id)
        inside = await copied_volume.adopt_passwords(
            ctx.engine, spec, inside, passwords, is_protected=source.is_protected
        )
        stopped = await compute_shutdown.stop_computes(ctx, branch.id, DISCONNECT_REASON)
        passwords = copied_volume.verifiers_of(await compute_shutdown.read_contents(ctx, branch.id))
        wish = VolumeSwitch(
            branch_id=branch.id,
            source_id=self._source_id,
            source_volume_id=self._target.volume_id,
            volume_id=self._volume_id,
            origin=origin,
            contents=await copied_volume.keep_passwords(ctx.engine, spec, inside, passwords),
            start_lsn=await ctx.find_wal_end(spec),
            previous_end_lsn=await self._find_previous_end(ctx, branch),
            preserved_id=self._preserved_id,
        )
        await ctx.gateways.invalidate([each.endpoint.id for each in stopped])
        return Done("the branch has the data that was asked for", writes=partial(self.publish, wish, stopped))

    async def resume(self, ctx: ActionContext) -> None:
        await compute_shutdown.resume_computes(ctx, self.branch_id)

    async def publish(self, change: VolumeSwitch, stopped: list[StoppedCompute], rows: Rows) -> None:
        open_work = await rows.operations.list_open(self.project_id)
        starting = {each.endpoint_id for each in open_work if RESUMES_KEY in each.parameters and each.endpoint_id}
        await compute_shutdown.record_stopped(rows, stopped, frozenset(map(EndpointId, starting)))
        before = require_found(await rows.branches.get(self.project_id, self.branch_id), "branch")
        await volume_switch.switch_volume(rows, before, change)

    async def _has_conflict(self, ctx: ActionContext) -> bool:
        """With the project's lock: whoever asked for work before this step was recorded is seen."""
        own = lock_of(self.operation)
        async with ctx.transaction() as rows:
            await rows.projects.lock(self.project_id)
            others = await rows.operations.list_open(self.project_id)
        return any(locks_conflict(own, lock_of(each)) for each in others if each.id != self.operation.id)

    async def _check_children(self, ctx: ActionContext, branch: Branch) -> None:
        """Children may have been made of it meanwhile."""
        if self._preserved_id is None:
            async with ctx.read() as rows:
                if await rows.branches.has_children(branch.id):
                    raise RuleViolation(restore_rules.has_children_message(branch))

    async def _find_previous_end(self, ctx: ActionContext, branch: Branch) -> str | None:
        """Where the WAL of what it had ends, when its history goes on with data of another branch."""
        if self._source_id == branch.id:
            return None
        end = await ctx.engine.read_wal_end(branch.volume_id)
        if end is None and self._preserved_id is not None:  # somebody may go on writing there
            own = await ctx.build_branch_spec(self.project_id, self.branch_id)
            await ctx.engine.read_branch_contents(own)  # a compute that was killed recovers, and ends in good order
            end = await ctx.engine.read_wal_end(branch.volume_id)
        return end

    async def _spec(self, ctx: ActionContext) -> BranchSpec:
        spec = await ctx.build_branch_spec(self.project_id, self.branch_id, self._target)
        return replace(spec, volume_id=self._volume_id)

    @property
    def _target(self) -> history.RecoveryTarget:
        target = history.decode_target(self.operation.parameters)
        assert target is not None, "a restore names what to go back to"
        return target

    @property
    def _source_id(self) -> BranchId:
        return BranchId(self.operation.parameters[SOURCE_KEY])

    @property
    def _volume_id(self) -> VolumeId:
        return VolumeId(self.operation.parameters[NEW_VOLUME_KEY])

    @property
    def _preserved_id(self) -> BranchId | None:
        preserved = self.operation.parameters.get(ALSO_LOCKED_KEY)
        return BranchId(preserved) if preserved else None
