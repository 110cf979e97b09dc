"""Create a branch from its parent's data, as it is now or as it was at a point in history.

Its volume is made while the parent goes on serving. What belongs to the parent alone is taken out of it before
anybody can open it: its subscriptions and, of a protected parent, its passwords; and all rows, when only its
structure was asked for. Data of another time may have other roles and databases than the parent has now: then it is
looked into, and roles that are in both have the passwords of now. Then the branch is published, and its own history
begins.
"""

from dataclasses import dataclass, replace
from functools import partial

from bough import clock
from bough.domain import history
from bough.domain.branch import SCHEMA_ONLY, Branch, BranchState, moved
from bough.domain.change import Empty, Rekey, Unsubscribe
from bough.domain.operation import SOURCE, OperationAction
from bough.engine.port import Contents, Origin
from bough.engine.spec import BranchSpec
from bough.operations import adopting, contents
from bough.operations.action import Action, step
from bough.operations.context import Context, there
from bough.operations.outcome import Done, Goto, Outcome
from bough.store.store import Rows

REKEYS = "rekeys"  # the parameter of a branch whose parent's passwords shall not open it


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """The volume, ready to be opened."""

    origin: Origin
    begins: str | None  # where its own history begins
    inside: Contents | None = None  # what is in it; None: what the rows say


class CreateBranch(Action):
    action = OperationAction.CREATE_BRANCH

    @step(undo="drop_volume")
    async def make_volume(self, ctx: Context) -> Outcome:
        """The parent's roles and databases are looked at first: what they are then is in the copy."""
        branch = await ctx.branch(self.project_id, self.branch_id)
        source_id = self.operation.parameters.get(SOURCE) or branch.parent_id
        async with ctx.read() as rows:
            serving = await rows.endpoints.read_write(source_id) if source_id else None
        seen = await ctx.look_at_contents(serving) if serving else None
        origin = await ctx.engine.ensure_branch(await self._spec(ctx))
        if seen is not None:
            async with ctx.transaction() as rows:
                await contents.begin_with(rows, branch.id, seen.now, rekeyed=self._rekeys)
        if self._rekeys or self._target or origin.subscribes or branch.init_source == SCHEMA_ONLY:
            return Goto(self.part)
        return Done("the branch is ready", writes=partial(self.publish, Made(origin=origin, begins=origin.lsn)))

    @step
    async def part(self, ctx: Context) -> Outcome:
        """It is nobody's but its own from now on."""
        spec = await self._spec(ctx)
        origin = await ctx.engine.ensure_branch(spec)
        branch = await ctx.branch(self.project_id, self.branch_id)
        if origin.subscribes:
            await ctx.engine.change(spec, Unsubscribe())
        if branch.init_source == SCHEMA_ONLY:
            await ctx.engine.change(spec, Empty())
        inside = await ctx.look_into(spec, branch.id) if self._target else None
        inside = await self._rekeyed(ctx, spec, inside) if self._rekeys else await self._keyed(ctx, spec, inside)
        if branch.restored_from is None:
            begins = await ctx.end_of(spec)
        else:  # its snapshot may go, so it stands on nothing but itself
            begins = (await ctx.engine.ensure_begun(self.project_id, branch.volume_id)).began_lsn
        return Done(
            "the branch is ready",
            writes=partial(self.publish, Made(origin=origin, begins=begins, inside=inside)),
        )

    async def _rekeyed(self, ctx: Context, spec: BranchSpec, inside: Contents | None) -> Contents | None:
        """With the passwords that it was given anew, and no other."""
        async with ctx.read() as rows:
            roles = await rows.roles.of_branch(self.branch_id)
        verifiers = {role.name: role.verifier for role in roles if role.is_wished and role.verifier is not None}
        await ctx.engine.change(spec, Rekey(verifiers=verifiers))
        if inside is None:
            return None
        return adopting.with_passwords(inside, {role.name: verifiers.get(role.name) for role in inside.roles})

    async def _keyed(self, ctx: Context, spec: BranchSpec, inside: Contents | None) -> Contents | None:
        if inside is None:
            return None
        async with ctx.read() as rows:
            own = contents.as_known(await contents.known(rows, self.branch_id))
        return await adopting.keep_passwords(ctx.engine, spec, inside, adopting.passwords_in(own))

    @property
    def _rekeys(self) -> bool:
        return bool(self.operation.parameters.get(REKEYS))

    @property
    def _target(self) -> history.Target | None:
        """None: all that the parent has."""
        return history.read(self.operation.parameters)

    async def _spec(self, ctx: Context) -> BranchSpec:
        return await ctx.branch_spec(self.project_id, self.branch_id, self._target)

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

    async def publish(self, made: Made, rows: Rows) -> None:
        branch = there(await rows.branches.get(self.project_id, self.branch_id), "branch")
        is_copy = branch.parent_id is not None and branch.restored_from is None
        parent = await rows.branches.get(self.project_id, branch.parent_id or branch.id) if is_copy else None
        now = clock.now()
        for role in await rows.roles.of_branch(branch.id) if self._rekeys else []:
            await rows.roles.set_told(branch.id, role.name, role.verifier, now)
        if made.inside is not None:
            await contents.become(rows, branch.id, made.inside)
        await rows.branches.save(_published(moved(branch, BranchState.READY, now), parent, made.origin))
        await rows.lineages.begin(branch.volume_id, now, made.begins)


def _published(branch: Branch, parent: Branch | None, origin: Origin) -> Branch:
    """A point that was asked for is told as it was asked for."""
    made = replace(branch, wal_position=origin.position)
    if parent is None:
        return made
    if branch.init_source != SCHEMA_ONLY:
        size = parent.logical_size if branch.logical_size is None else branch.logical_size
        made = replace(made, logical_size=size, fullness=parent.fullness, stored_bytes=parent.stored_bytes)
    return replace(
        made,
        parent_lsn=branch.parent_lsn or origin.lsn,
        parent_timestamp=branch.parent_timestamp or origin.at,
    )
