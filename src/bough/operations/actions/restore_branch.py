"""Restore a branch to a point in its own history, or to the data of another branch.

The data is prepared in a new volume while the branch keeps serving clients. Then its computes stop, and one
transaction gives it the new volume and moves the old one to the branch that preserves it, if there is one. The id, the
endpoints and the passwords stay. Until that transaction commits, the branch is unchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from bough import clock
from bough.domain import restore_rules
from bough.domain.branch import Branch
from bough.domain.history import RecoveryTarget, decode_target, encode_target
from bough.domain.locks import LockLevel, LockRequest, locks_conflict
from bough.domain.operation import OperationKind
from bough.engine.spec import BranchSpec
from bough.errors import RuleViolation
from bough.ids import BranchId, VolumeId
from bough.operations import compute_shutdown, copied_volume, volume_switch
from bough.operations.action import Action, step
from bough.operations.actions.start_compute import list_resuming_endpoints
from bough.operations.compute_shutdown import StoppedCompute
from bough.operations.context import ActionContext, require_found
from bough.operations.outcome import Done, Goto, Outcome, Sleep
from bough.operations.params import Params, drop_none
from bough.operations.volume_switch import VolumeSwitch
from bough.store.store import Rows

DISCONNECT_REASON = "The branch is being restored. Connect again in a moment."


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreBranchParams(Params):
    source_id: BranchId  # the branch that has the data; may be the restored branch itself
    new_volume_id: VolumeId
    target: RecoveryTarget
    preserving_branch_id: BranchId | None = None  # the branch that gets the old volume

    def to_stored(self) -> dict[str, Any]:
        return {
            "source_id": self.source_id,
            "makes_volume_id": self.new_volume_id,
            **encode_target(self.target),
            **drop_none({"also_id": self.preserving_branch_id}),
        }

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any], version: int) -> Self:
        target, preserving = decode_target(stored), stored.get("also_id")
        if target is None:
            raise ValueError("there is no target")
        return cls(
            source_id=BranchId(stored["source_id"]),
            new_volume_id=VolumeId(stored["makes_volume_id"]),
            target=target,
            preserving_branch_id=BranchId(preserving) if preserving else None,
        )


class RestoreBranch(Action[RestoreBranchParams]):
    kind = OperationKind.RESTORE_BRANCH
    params_type = RestoreBranchParams

    @classmethod
    def locks(cls, params: RestoreBranchParams, step: str | None) -> LockRequest:
        """While it prepares, only other replacements are excluded. Later it has copied the source and needs the branch
        for itself.
        """
        if step in (None, cls.prepare.__name__):
            return LockRequest(
                level=LockLevel.REPLACEMENT, source_id=params.source_id, also_locked_id=params.preserving_branch_id
            )
        return LockRequest(level=LockLevel.BRANCH, also_locked_id=params.preserving_branch_id)

    async def drop_new_volume(self, ctx: ActionContext) -> None:
        """The branch is unchanged. The branch that would have preserved its data is deleted, which frees its name."""
        await ctx.branch_engine.ensure_absent(self.project_id, self.params.new_volume_id)
        now = clock.now()
        preserving_id = self.params.preserving_branch_id
        async with ctx.transaction() as rows:
            await rows.lineages.remove_volume(self.params.new_volume_id)
            preserving = await rows.branches.get(self.project_id, preserving_id) if preserving_id else None
            if preserving is not None:
                await rows.branches.save(replace(preserving, deleted_at=now, deletion_method="user", updated_at=now))
                await rows.branches.delete_contents(preserving.id)

    @step(undo=drop_new_volume)
    async def prepare(self, ctx: ActionContext) -> Outcome:
        await ctx.branch_engine.ensure_branch(await self._spec(ctx))
        return Goto(self.switch)

    async def resume_computes(self, ctx: ActionContext) -> None:
        await compute_shutdown.resume_computes(ctx, self.branch_id)

    @step(undo=resume_computes)
    async def switch(self, ctx: ActionContext) -> Outcome:
        """The passwords are read twice, so that changes made with SQL until the computes stop are kept."""
        if await self._has_conflict(ctx):
            return Sleep(1.0, "another operation on the branch is running")
        branch = await ctx.get_branch(self.project_id, self.branch_id)
        await self._check_children(ctx, branch)
        spec = await self._spec(ctx)
        origin = await ctx.branch_engine.ensure_branch(spec)
        verifiers = copied_volume.verifiers_of(await compute_shutdown.read_contents(ctx, branch.id))
        source = await ctx.get_branch(self.project_id, self.params.source_id)
        await copied_volume.disable_subscriptions(ctx.branch_engine, spec, origin)
        contents = await ctx.inspect_volume(spec, branch.id)
        contents = await copied_volume.set_passwords_of_branch(
            ctx.branch_engine, spec, contents, verifiers, is_protected=source.is_protected
        )
        stopped = await compute_shutdown.stop_computes(ctx, branch.id, DISCONNECT_REASON)
        verifiers = copied_volume.verifiers_of(await compute_shutdown.read_contents(ctx, branch.id))
        change = VolumeSwitch(
            branch_id=branch.id,
            source_id=self.params.source_id,
            source_volume_id=self.params.target.volume_id,
            volume_id=self.params.new_volume_id,
            origin=origin,
            contents=await copied_volume.set_passwords(ctx.branch_engine, spec, contents, verifiers),
            start_lsn=await ctx.find_wal_end(spec),
            previous_end_lsn=await self._find_previous_end(ctx, branch),
            preserving_branch_id=self.params.preserving_branch_id,
        )
        await ctx.gateways.invalidate([each.endpoint.id for each in stopped])
        return Done("the branch has the requested data", writes=partial(self.publish, change, stopped))

    async def publish(self, change: VolumeSwitch, stopped: list[StoppedCompute], rows: Rows) -> None:
        resuming = await list_resuming_endpoints(rows, self.project_id)
        await compute_shutdown.record_stopped(rows, stopped, resuming)
        branch = require_found(await rows.branches.get(self.project_id, self.branch_id), "branch")
        await volume_switch.switch_volume(rows, branch, change)

    async def _has_conflict(self, ctx: ActionContext) -> bool:
        """Check under the project's lock: operations requested before this step was recorded must be seen."""
        own = ctx.lock_of(self.operation)
        async with ctx.transaction() as rows:
            await rows.projects.lock(self.project_id)
            others = await rows.operations.list_open(self.project_id)
        return any(locks_conflict(own, ctx.lock_of(each)) for each in others if each.id != self.operation.id)

    async def _check_children(self, ctx: ActionContext, branch: Branch) -> None:
        """Children may have been created while the restore prepared."""
        if self.params.preserving_branch_id is None:
            async with ctx.read() as rows:
                if await rows.branches.has_children(branch.id):
                    raise RuleViolation(restore_rules.has_children_message(branch))

    async def _find_previous_end(self, ctx: ActionContext, branch: Branch) -> str | None:
        """Return where the WAL of the old volume ends, when the branch continues with data of another branch."""
        if self.params.source_id == branch.id:
            return None
        end = await ctx.engine_inspection.read_wal_end(branch.volume_id)
        if end is None and self.params.preserving_branch_id is not None:  # the old volume will be written to again
            own = await ctx.build_branch_spec(self.project_id, self.branch_id)
            await ctx.branch_engine.read_branch_contents(own)  # recovers a killed compute and shuts it down cleanly
            end = await ctx.engine_inspection.read_wal_end(branch.volume_id)
        return end

    async def _spec(self, ctx: ActionContext) -> BranchSpec:
        spec = await ctx.build_branch_spec(self.project_id, self.branch_id, self.params.target)
        return replace(spec, volume_id=self.params.new_volume_id)
