"""Create a branch from the data of its parent or of a snapshot, as of now or as of a point in history.

The volume is created while the parent keeps serving clients. Before any client can connect, the action removes what
must not be copied: subscriptions, the passwords of a protected parent, and all rows of a schema-only branch. Data of
another time may have other roles and databases than the parent has now: then the volume is inspected, and roles that
exist in both get the current passwords. Finally the branch is published and its own history starts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from bough import clock
from bough.domain.branch import SCHEMA_ONLY, Branch, BranchState, transition_branch
from bough.domain.catalog_change import DeleteAllRows, DisableSubscriptions, ReplacePasswords
from bough.domain.history import RecoveryTarget, decode_target, encode_target
from bough.domain.locks import LockLevel, LockRequest
from bough.domain.operation import OperationKind
from bough.engine.port import BranchContents, Origin
from bough.engine.spec import BranchSpec
from bough.ids import BranchId, SnapshotId
from bough.operations import contents_inspection, contents_sync, copied_volume
from bough.operations.action import Action, step
from bough.operations.context import ActionContext, require_found
from bough.operations.outcome import Done, Goto, Outcome
from bough.operations.params import Params, drop_none
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateBranchParams(Params):
    source_id: BranchId | SnapshotId | None = None  # what is copied; None in rows of the first version: the parent
    replaces_passwords: bool = False  # the passwords of a protected parent must not open the branch
    target: RecoveryTarget | None = None  # None: everything that the parent has

    def to_stored(self) -> dict[str, Any]:
        target = encode_target(self.target) if self.target else {}
        return {**drop_none({"source_id": self.source_id}), "rekeys": self.replaces_passwords, **target}

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any], version: int) -> Self:
        source = stored.get("source_id")
        return cls(
            source_id=_parse_source_id(source) if source else None,
            replaces_passwords=bool(stored.get("rekeys")),
            target=decode_target(stored),
        )


def _parse_source_id(text: str) -> BranchId | SnapshotId:
    return SnapshotId(text) if text.startswith(f"{SnapshotId.prefix}-") else BranchId(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedVolume:
    """A volume that is ready to be opened."""

    origin: Origin
    start_lsn: str | None  # where its own history starts
    contents: BranchContents | None = None  # its roles and databases; None: as the rows say


class CreateBranch(Action[CreateBranchParams]):
    kind = OperationKind.CREATE_BRANCH
    params_type = CreateBranchParams

    @classmethod
    def locks(cls, params: CreateBranchParams, step: str | None) -> LockRequest:
        return LockRequest(level=LockLevel.BRANCH, source_id=params.source_id, creates_branch=True)

    async def drop_volume(self, ctx: ActionContext) -> None:
        """Mark the branch as deleted, which frees its name."""
        branch = await ctx.get_branch(self.project_id, self.branch_id)
        await ctx.branch_engine.ensure_absent(self.project_id, branch.volume_id)
        now = clock.now()
        async with ctx.transaction() as rows:
            await rows.branches.save(replace(branch, deleted_at=now, deletion_method="user", updated_at=now))
            await rows.branches.delete_contents(branch.id)
            for endpoint in await rows.endpoints.list_in_branch(branch.id):
                await rows.endpoints.save(replace(endpoint, deleted_at=now, pending_state=None, updated_at=now))

    @step(undo=drop_volume)
    async def make_volume(self, ctx: ActionContext) -> Outcome:
        """The roles and databases of the parent are read before the copy, so that the copy contains them."""
        branch = await ctx.get_branch(self.project_id, self.branch_id)
        source_id = self.params.source_id or branch.parent_id
        async with ctx.read() as rows:
            serving = await rows.endpoints.get_read_write(BranchId(source_id)) if source_id else None
        inspection = await ctx.inspect_contents(serving) if serving else None
        origin = await ctx.branch_engine.ensure_branch(await self._spec(ctx))
        if inspection is not None:
            async with ctx.transaction() as rows:
                await contents_sync.inherit_contents(
                    rows, branch.id, inspection.actual, has_new_passwords=self.params.replaces_passwords
                )
        is_schema_only = branch.init_source == SCHEMA_ONLY
        if self.params.replaces_passwords or self.params.target or origin.has_subscriptions or is_schema_only:
            return Goto(self.part)
        created = CreatedVolume(origin=origin, start_lsn=origin.lsn)
        return Done("the branch is ready", writes=partial(self.publish, created))

    @step
    async def part(self, ctx: ActionContext) -> Outcome:
        """Separate the copy from its source: subscriptions, rows and passwords."""
        spec = await self._spec(ctx)
        origin = await ctx.branch_engine.ensure_branch(spec)
        branch = await ctx.get_branch(self.project_id, self.branch_id)
        if origin.has_subscriptions:
            await ctx.branch_engine.apply_change(spec, DisableSubscriptions())
        if branch.init_source == SCHEMA_ONLY:
            await ctx.branch_engine.apply_change(spec, DeleteAllRows())
        contents = await ctx.inspect_volume(spec, branch.id) if self.params.target else None
        if self.params.replaces_passwords:
            contents = await self._replace_passwords(ctx, spec, contents)
        else:
            contents = await self._restore_branch_passwords(ctx, spec, contents)
        if branch.restored_from is None:
            start_lsn = await ctx.find_wal_end(spec)
        else:  # the snapshot may be deleted, so the history must not depend on it
            start_lsn = (await ctx.history_engine.ensure_history_started(self.project_id, branch.volume_id)).began_lsn
        created = CreatedVolume(origin=origin, start_lsn=start_lsn, contents=contents)
        return Done("the branch is ready", writes=partial(self.publish, created))

    async def _replace_passwords(
        self, ctx: ActionContext, spec: BranchSpec, contents: BranchContents | None
    ) -> BranchContents | None:
        """Set the new passwords of the branch, and remove all others."""
        async with ctx.read() as rows:
            roles = await rows.roles.list_in_branch(self.branch_id)
        verifiers = {role.name: role.verifier for role in roles if role.is_pending and role.verifier is not None}
        await ctx.branch_engine.apply_change(spec, ReplacePasswords(verifiers=verifiers))
        if contents is None:
            return None
        return copied_volume.replace_verifiers(
            contents, {role.name: verifiers.get(role.name) for role in contents.roles}
        )

    async def _restore_branch_passwords(
        self, ctx: ActionContext, spec: BranchSpec, contents: BranchContents | None
    ) -> BranchContents | None:
        if contents is None:
            return None
        async with ctx.read() as rows:
            own = contents_inspection.to_contents(await contents_inspection.load_contents(rows, self.branch_id))
        return await copied_volume.set_passwords(ctx.branch_engine, spec, contents, copied_volume.verifiers_of(own))

    async def _spec(self, ctx: ActionContext) -> BranchSpec:
        return await ctx.build_branch_spec(self.project_id, self.branch_id, self.params.target)

    async def publish(self, created: CreatedVolume, rows: Rows) -> None:
        branch = require_found(await rows.branches.get(self.project_id, self.branch_id), "branch")
        is_copy = branch.parent_id is not None and branch.restored_from is None
        parent = await rows.branches.get(self.project_id, branch.parent_id or branch.id) if is_copy else None
        now = clock.now()
        for role in await rows.roles.list_in_branch(branch.id) if self.params.replaces_passwords else []:
            await rows.roles.mark_applied(branch.id, role.name, role.verifier, now)
        if created.contents is not None:
            await contents_sync.replace_contents(rows, branch.id, created.contents)
        await rows.branches.save(_published(transition_branch(branch, BranchState.READY, now), parent, created.origin))
        await rows.lineages.set_history_start(branch.volume_id, now, created.start_lsn)


def _published(branch: Branch, parent: Branch | None, origin: Origin) -> Branch:
    """A requested point is shown as it was requested."""
    published = replace(branch, wal_position=origin.position)
    if parent is None:
        return published
    if branch.init_source != SCHEMA_ONLY:
        size = parent.logical_size if branch.logical_size is None else branch.logical_size
        published = replace(published, logical_size=size, fullness=parent.fullness, stored_bytes=parent.stored_bytes)
    return replace(
        published,
        parent_lsn=branch.parent_lsn or origin.lsn,
        parent_timestamp=branch.parent_timestamp or origin.at,
    )
