"""Finalize a restore: a branch that was created from a snapshot takes the place of another branch.

The computes of both stop. Then one transaction swaps their names and endpoints: the restored branch becomes the one
that clients know, and the replaced branch stays under another name, with its data, history and children. Connection
strings keep working: roles that both have keep the passwords of the replaced branch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Self

from bough import clock
from bough.domain.branch import Branch
from bough.domain.endpoint import EndpointType
from bough.domain.locks import LockLevel, LockRequest
from bough.domain.operation import OperationKind
from bough.domain.snapshot import make_replaced_name, make_unique_name
from bough.ids import BranchId
from bough.operations import compute_shutdown
from bough.operations.action import Action, step
from bough.operations.actions.start_compute import list_resuming_endpoints
from bough.operations.compute_shutdown import StoppedCompute
from bough.operations.context import ActionContext, require_found
from bough.operations.outcome import Done, Outcome
from bough.operations.params import Params, drop_none
from bough.store.store import Rows

DISCONNECT_REASON = "The branch is being replaced by a restored branch. Connect again in a moment."


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizeRestoreParams(Params):
    replaced_branch_id: BranchId
    replaced_branch_name: str | None = None  # its requested new name

    def to_stored(self) -> dict[str, Any]:
        return drop_none({"also_id": self.replaced_branch_id, "old_name": self.replaced_branch_name})

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any], version: int) -> Self:
        return cls(replaced_branch_id=BranchId(stored["also_id"]), replaced_branch_name=stored.get("old_name"))


class FinalizeRestore(Action[FinalizeRestoreParams]):
    kind = OperationKind.FINALIZE_RESTORE
    params_type = FinalizeRestoreParams

    @classmethod
    def locks(cls, params: FinalizeRestoreParams, step: str | None) -> LockRequest:
        return LockRequest(level=LockLevel.BRANCH, also_locked_id=params.replaced_branch_id)

    async def resume_computes(self, ctx: ActionContext) -> None:
        for branch_id in (self.params.replaced_branch_id, self.branch_id):
            await compute_shutdown.resume_computes(ctx, branch_id)

    @step(undo=resume_computes)
    async def switch(self, ctx: ActionContext) -> Outcome:
        stopped = [
            each
            for branch_id in (self.params.replaced_branch_id, self.branch_id)
            for each in await compute_shutdown.stop_computes(ctx, branch_id, DISCONNECT_REASON)
        ]
        await ctx.gateways.invalidate([each.endpoint.id for each in stopped])
        return Done("the restored branch has replaced the other one", writes=partial(self.publish, stopped))

    async def publish(self, stopped: list[StoppedCompute], rows: Rows) -> None:
        resuming = await list_resuming_endpoints(rows, self.project_id)
        await compute_shutdown.record_stopped(rows, stopped, resuming)
        now = clock.now()
        old = require_found(await rows.branches.get(self.project_id, self.params.replaced_branch_id), "branch")
        new = require_found(await rows.branches.get(self.project_id, self.branch_id), "branch")
        await self._rename(rows, old, new, now)
        await _swap_endpoints(rows, old, new)
        await _copy_passwords(rows, old, new, now)
        schedule = await rows.snapshot_schedules.get(old.id)
        if schedule is not None and old.parent_id is None:
            await rows.snapshot_schedules.remove(old.id)
            await rows.snapshot_schedules.replace(replace(schedule, branch_id=new.id, updated_at=now))

    async def _rename(self, rows: Rows, old: Branch, new: Branch, now: datetime) -> None:
        """The old branch is renamed first, because names are unique at every moment."""
        names = {branch.name for branch in await rows.branches.list_in_project(self.project_id)}
        requested = self.params.replaced_branch_name
        name = make_unique_name(requested, names) if requested else make_replaced_name(old.name, names)
        await rows.branches.save(replace(old, name=name, is_default=False, replaced_by=new.id, updated_at=now))
        await rows.branches.save(
            replace(
                new,
                name=old.name,
                is_default=old.is_default,
                is_protected=old.is_protected,
                annotations=old.annotations,
                expires_at=old.expires_at,
                ttl_seconds=old.ttl_seconds,
                parent_id=old.parent_id,
                parent_lsn=old.parent_lsn,
                parent_timestamp=old.parent_timestamp,
                restored_for=old.id,
                finalized_at=now,
                updated_at=now,
            )
        )


async def _swap_endpoints(rows: Rows, old: Branch, new: Branch) -> None:
    """Move the endpoints of the old branch to the new one, and the read-write endpoint of the new one to the old one.

    When the old branch has no read-write endpoint, the new one keeps its own, so that it stays writable.
    """
    old_endpoints = await rows.endpoints.list_in_branch(old.id)
    has_writer = any(endpoint.type is EndpointType.READ_WRITE for endpoint in old_endpoints)
    for endpoint in await rows.endpoints.list_in_branch(new.id):
        if has_writer and endpoint.type is EndpointType.READ_WRITE:
            await rows.endpoints.save(replace(endpoint, branch_id=old.id))
    for endpoint in old_endpoints:
        await rows.endpoints.save(replace(endpoint, branch_id=new.id))


async def _copy_passwords(rows: Rows, old: Branch, new: Branch, now: datetime) -> None:
    """Copy the passwords of the old branch to the new one. The next compute that starts applies them in Postgres."""
    own = {role.name: role for role in await rows.roles.list_in_branch(new.id)}
    for role in await rows.roles.list_in_branch(old.id):
        known = own.get(role.name)
        if known is None or role.verifier is None or role.verifier == known.verifier:
            continue
        changed = replace(
            known,
            verifier=role.verifier,
            valid_until=role.valid_until,
            sealed_password=None,
            is_pending=True,
            updated_at=now,
        )
        await rows.roles.save(changed)
