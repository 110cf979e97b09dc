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
from bough.domain.branch import SCHEMA_ONLY, Branch, BranchState, transition_branch
from bough.domain.catalog_change import DeleteAllRows, DisableSubscriptions, ReplacePasswords
from bough.domain.operation import SOURCE_KEY, OperationAction
from bough.engine.port import BranchContents, Origin
from bough.engine.spec import BranchSpec
from bough.operations import contents_sync as contents
from bough.operations import copied_volume
from bough.operations.action import Action, step
from bough.operations.context import ActionContext, require_found
from bough.operations.outcome import Done, Goto, Outcome
from bough.store.store import Rows

NEW_PASSWORDS_KEY = "rekeys"  # the parameter of a branch whose parent's passwords shall not open it


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedVolume:
    """The volume, ready to be opened."""

    origin: Origin
    start_lsn: str | None  # where its own history begins
    contents: BranchContents | None = None  # what is in it; None: what the rows say


class CreateBranch(Action):
    action = OperationAction.CREATE_BRANCH

    @step(undo="drop_volume")
    async def make_volume(self, ctx: ActionContext) -> Outcome:
        """The parent's roles and databases are looked at first: what they are then is in the copy."""
        branch = await ctx.get_branch(self.project_id, self.branch_id)
        source_id = self.operation.parameters.get(SOURCE_KEY) or branch.parent_id
        async with ctx.read() as rows:
            serving = await rows.endpoints.get_read_write(source_id) if source_id else None
        seen = await ctx.inspect_contents(serving) if serving else None
        origin = await ctx.engine.ensure_branch(await self._spec(ctx))
        if seen is not None:
            async with ctx.transaction() as rows:
                await contents.inherit_contents(rows, branch.id, seen.actual, has_new_passwords=self._has_new_passwords)
        if self._has_new_passwords or self._target or origin.has_subscriptions or branch.init_source == SCHEMA_ONLY:
            return Goto(self.part)
        return Done(
            "the branch is ready", writes=partial(self.publish, CreatedVolume(origin=origin, start_lsn=origin.lsn))
        )

    @step
    async def part(self, ctx: ActionContext) -> Outcome:
        """It is nobody's but its own from now on."""
        spec = await self._spec(ctx)
        origin = await ctx.engine.ensure_branch(spec)
        branch = await ctx.get_branch(self.project_id, self.branch_id)
        if origin.has_subscriptions:
            await ctx.engine.apply_change(spec, DisableSubscriptions())
        if branch.init_source == SCHEMA_ONLY:
            await ctx.engine.apply_change(spec, DeleteAllRows())
        inside = await ctx.inspect_volume(spec, branch.id) if self._target else None
        inside = (
            await self._replace_passwords(ctx, spec, inside)
            if self._has_new_passwords
            else await self._keep_passwords(ctx, spec, inside)
        )
        if branch.restored_from is None:
            begins = await ctx.find_wal_end(spec)
        else:  # its snapshot may go, so it stands on nothing but itself
            begins = (await ctx.engine.ensure_history_started(self.project_id, branch.volume_id)).began_lsn
        return Done(
            "the branch is ready",
            writes=partial(self.publish, CreatedVolume(origin=origin, start_lsn=begins, contents=inside)),
        )

    async def _replace_passwords(
        self, ctx: ActionContext, spec: BranchSpec, inside: BranchContents | None
    ) -> BranchContents | None:
        """With the passwords that it was given anew, and no other."""
        async with ctx.read() as rows:
            roles = await rows.roles.list_in_branch(self.branch_id)
        verifiers = {role.name: role.verifier for role in roles if role.is_wished and role.verifier is not None}
        await ctx.engine.apply_change(spec, ReplacePasswords(verifiers=verifiers))
        if inside is None:
            return None
        return copied_volume.replace_verifiers(inside, {role.name: verifiers.get(role.name) for role in inside.roles})

    async def _keep_passwords(
        self, ctx: ActionContext, spec: BranchSpec, inside: BranchContents | None
    ) -> BranchContents | None:
        if inside is None:
            return None
        async with ctx.read() as rows:
            own = contents.to_contents(await contents.load_contents(rows, self.branch_id))
        return await copied_volume.keep_passwords(ctx.engine, spec, inside, copied_volume.verifiers_of(own))

    @property
    def _has_new_passwords(self) -> bool:
        return bool(self.operation.parameters.get(NEW_PASSWORDS_KEY))

    @property
    def _target(self) -> history.RecoveryTarget | None:
        """None: all that the parent has."""
        return history.decode_target(self.operation.parameters)

    async def _spec(self, ctx: ActionContext) -> BranchSpec:
        return await ctx.build_branch_spec(self.project_id, self.branch_id, self._target)

    async def drop_volume(self, ctx: ActionContext) -> None:
        """A branch that could not be made is as good as deleted, and its name is free again."""
        branch = await ctx.get_branch(self.project_id, self.branch_id)
        await ctx.engine.ensure_absent(self.project_id, branch.volume_id)
        now = clock.now()
        async with ctx.transaction() as rows:
            await rows.branches.save(replace(branch, deleted_at=now, deletion_method="user", updated_at=now))
            await rows.branches.delete_contents(branch.id)
            for endpoint in await rows.endpoints.list_in_branch(branch.id):
                await rows.endpoints.save(replace(endpoint, deleted_at=now, pending_state=None, updated_at=now))

    async def publish(self, made: CreatedVolume, rows: Rows) -> None:
        branch = require_found(await rows.branches.get(self.project_id, self.branch_id), "branch")
        is_copy = branch.parent_id is not None and branch.restored_from is None
        parent = await rows.branches.get(self.project_id, branch.parent_id or branch.id) if is_copy else None
        now = clock.now()
        for role in await rows.roles.list_in_branch(branch.id) if self._has_new_passwords else []:
            await rows.roles.mark_applied(branch.id, role.name, role.verifier, now)
        if made.contents is not None:
            await contents.replace_contents(rows, branch.id, made.contents)
        await rows.branches.save(_published(transition_branch(branch, BranchState.READY, now), parent, made.origin))
        await rows.lineages.set_history_start(branch.volume_id, now, made.start_lsn)


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
