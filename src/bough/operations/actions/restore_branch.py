"""Restore a branch: it gets the data of a point in its own history, or of another branch.

The data is made in a new volume while the branch goes on serving. Then the branch is taken: its computes stop, and
in one transaction it gets the new volume, and what it had goes to the branch that preserves it. Its id, its endpoints
and its passwords stay. Whatever happens before that transaction, the branch is as it was.
"""

from dataclasses import replace
from functools import partial

from bough import clock
from bough.domain import history, restoring
from bough.domain.branch import Branch
from bough.domain.operation import (
    ALSO,
    RESUMES,
    SOURCE,
    OperationAction,
    Variant,
    conflict,
    touch_of,
)
from bough.engine.spec import BranchSpec
from bough.errors import RuleBroken
from bough.ids import BranchId, EndpointId, VolumeId
from bough.operations import adopting, stopping, switching
from bough.operations.action import Action, step
from bough.operations.context import Context, there
from bough.operations.outcome import Done, Goto, Outcome, Sleep
from bough.operations.stopping import Stopped
from bough.operations.switching import Switch
from bough.store.store import Rows

MAKES = "makes_volume_id"  # the parameter that names the volume which the branch gets
WHY = "The branch is being restored to other data. Connect again in a moment."


class RestoreBranch(Action):
    action = OperationAction.CREATE_TIMELINE
    variant = Variant.RESTORE

    @step(undo="drop")
    async def prepare(self, ctx: Context) -> Outcome:
        await ctx.engine.ensure_branch(await self._spec(ctx))
        return Goto(self.switch)

    async def drop(self, ctx: Context) -> None:
        """The branch is as it was; the name of the one that was to preserve it is free again."""
        await ctx.engine.ensure_absent(self.project_id, self._volume_id)
        now = clock.now()
        async with ctx.transaction() as rows:
            await rows.lineages.remove_volume(self._volume_id)
            preserved = await rows.branches.get(self.project_id, self._preserved_id) if self._preserved_id else None
            if preserved is not None:
                await rows.branches.save(replace(preserved, deleted_at=now, deletion_method="user", updated_at=now))
                await rows.branches.clear(preserved.id)

    @step(undo="resume")
    async def switch(self, ctx: Context) -> Outcome:
        """Passwords that are changed with SQL until the last moment are kept too."""
        if await self._is_hindered(ctx):
            return Sleep(1.0, "other work on the branch goes on")
        branch = await ctx.branch(self.project_id, self.branch_id)
        await self._check_children(ctx, branch)
        spec = await self._spec(ctx)
        origin = await ctx.engine.ensure_branch(spec)
        passwords = adopting.passwords_in(await stopping.contents_now(ctx, branch.id))
        source = await ctx.branch(self.project_id, self._source_id)
        await adopting.part(ctx.engine, spec, origin)
        inside = await ctx.look_into(spec, branch.id)
        inside = await adopting.adopt(ctx.engine, spec, inside, passwords, is_protected=source.is_protected)
        stopped = await stopping.stop_all(ctx, branch.id, WHY)
        passwords = adopting.passwords_in(await stopping.contents_now(ctx, branch.id))
        wish = Switch(
            branch_id=branch.id,
            source_id=self._source_id,
            source_volume_id=self._target.volume_id,
            volume_id=self._volume_id,
            origin=origin,
            inside=await adopting.keep_passwords(ctx.engine, spec, inside, passwords),
            begins=await ctx.end_of(spec),
            left_at=await self._left_at(ctx, branch),
            preserved_id=self._preserved_id,
        )
        await ctx.doors.forget([each.endpoint.id for each in stopped])
        return Done("the branch has the data that was asked for", writes=partial(self.publish, wish, stopped))

    async def resume(self, ctx: Context) -> None:
        await stopping.resume(ctx, self.branch_id)

    async def publish(self, wish: Switch, stopped: list[Stopped], rows: Rows) -> None:
        open_work = await rows.operations.open_of(self.project_id)
        starting = {each.endpoint_id for each in open_work if RESUMES in each.parameters and each.endpoint_id}
        await stopping.note(rows, stopped, frozenset(map(EndpointId, starting)))
        before = there(await rows.branches.get(self.project_id, self.branch_id), "branch")
        await switching.switch(rows, before, wish)

    async def _is_hindered(self, ctx: Context) -> bool:
        """With the project's lock: whoever asked for work before this step was recorded is seen."""
        own = touch_of(self.operation)
        async with ctx.transaction() as rows:
            await rows.projects.lock(self.project_id)
            others = await rows.operations.open_of(self.project_id)
        return any(conflict(own, touch_of(each)) for each in others if each.id != self.operation.id)

    async def _check_children(self, ctx: Context, branch: Branch) -> None:
        """Children may have been made of it meanwhile."""
        if self._preserved_id is None:
            async with ctx.read() as rows:
                if await rows.branches.has_children(branch.id):
                    raise RuleBroken(restoring.has_children_sentence(branch))

    async def _left_at(self, ctx: Context, branch: Branch) -> str | None:
        """Where the WAL of what it had ends, when its history goes on with data of another branch."""
        if self._source_id == branch.id:
            return None
        end = await ctx.engine.written_until(branch.volume_id)
        if end is None and self._preserved_id is not None:  # somebody may go on writing there
            own = await ctx.branch_spec(self.project_id, self.branch_id)
            await ctx.engine.look_into(own)  # a compute that was killed recovers, and ends in good order
            end = await ctx.engine.written_until(branch.volume_id)
        return end

    async def _spec(self, ctx: Context) -> BranchSpec:
        spec = await ctx.branch_spec(self.project_id, self.branch_id, self._target)
        return replace(spec, volume_id=self._volume_id)

    @property
    def _target(self) -> history.Target:
        target = history.read(self.operation.parameters)
        assert target is not None, "a restore names what to go back to"
        return target

    @property
    def _source_id(self) -> BranchId:
        return BranchId(self.operation.parameters[SOURCE])

    @property
    def _volume_id(self) -> VolumeId:
        return VolumeId(self.operation.parameters[MAKES])

    @property
    def _preserved_id(self) -> BranchId | None:
        preserved = self.operation.parameters.get(ALSO)
        return BranchId(preserved) if preserved else None
