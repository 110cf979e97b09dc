"""Finalize a restore: a branch that was made of a snapshot takes the place of another.

The computes of both stop. Then, in one transaction, they trade names and endpoints: the restored one gets what makes
the other known, and the other stays beside it under another name, with its data, its history and its children. So
connection strings go on working: roles that both have keep the passwords of the one whose place is taken.
"""

from dataclasses import replace
from datetime import datetime
from functools import partial

from bough import clock
from bough.domain.branch import Branch
from bough.domain.endpoint import EndpointType
from bough.domain.operation import ALSO_LOCKED_KEY, RESUMES_KEY, OperationAction, Variant
from bough.domain.snapshot import make_replaced_name, make_unique_name
from bough.ids import BranchId, EndpointId
from bough.operations import compute_shutdown
from bough.operations.action import Action, step
from bough.operations.compute_shutdown import StoppedCompute
from bough.operations.context import ActionContext, require_found
from bough.operations.outcome import Done, Outcome
from bough.store.store import Rows

OLD_NAME_KEY = "old_name"  # the parameter of what the branch is called whose place is taken
DISCONNECT_REASON = "The branch is being replaced by one that was restored. Connect again in a moment."


class FinalizeRestore(Action):
    action = OperationAction.CREATE_TIMELINE
    variant = Variant.FINALIZE

    @step(undo="resume")
    async def switch(self, ctx: ActionContext) -> Outcome:
        stopped = [
            each
            for branch_id in (self._replaced_id, self.branch_id)
            for each in await compute_shutdown.stop_computes(ctx, branch_id, DISCONNECT_REASON)
        ]
        await ctx.gateways.invalidate([each.endpoint.id for each in stopped])
        return Done("the restored branch has taken the other's place", writes=partial(self.publish, stopped))

    async def resume(self, ctx: ActionContext) -> None:
        for branch_id in (self._replaced_id, self.branch_id):
            await compute_shutdown.resume_computes(ctx, branch_id)

    async def publish(self, stopped: list[StoppedCompute], rows: Rows) -> None:
        open_work = await rows.operations.list_open(self.project_id)
        starting = {
            EndpointId(each.endpoint_id) for each in open_work if RESUMES_KEY in each.parameters and each.endpoint_id
        }
        await compute_shutdown.record_stopped(rows, stopped, frozenset(starting))
        now = clock.now()
        old = require_found(await rows.branches.get(self.project_id, self._replaced_id), "branch")
        new = require_found(await rows.branches.get(self.project_id, self.branch_id), "branch")
        await self._rename(rows, old, new, now)
        await _swap_endpoints(rows, old, new)
        await _keep_passwords(rows, old, new, now)
        schedule = await rows.snapshot_schedules.get(old.id)
        if schedule is not None and old.parent_id is None:
            await rows.snapshot_schedules.remove(old.id)
            await rows.snapshot_schedules.replace(replace(schedule, branch_id=new.id, updated_at=now))

    async def _rename(self, rows: Rows, old: Branch, new: Branch, now: datetime) -> None:
        """The old one first: no two may have one name, not even for a moment."""
        taken = {branch.name for branch in await rows.branches.list_in_project(self.project_id)}
        asked = self.operation.parameters.get(OLD_NAME_KEY)
        name = make_unique_name(asked, taken) if asked else make_replaced_name(old.name, taken)
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

    @property
    def _replaced_id(self) -> BranchId:
        return BranchId(self.operation.parameters[ALSO_LOCKED_KEY])


async def _swap_endpoints(rows: Rows, old: Branch, new: Branch) -> None:
    """What the restored one was looked at through stays for looking at the other. Where there was nothing to trade
    for, it keeps its own: a branch that can be written to stays so.
    """
    given = await rows.endpoints.list_in_branch(old.id)
    writes = any(endpoint.type is EndpointType.READ_WRITE for endpoint in given)
    for endpoint in await rows.endpoints.list_in_branch(new.id):
        if writes and endpoint.type is EndpointType.READ_WRITE:
            await rows.endpoints.save(replace(endpoint, branch_id=old.id))
    for endpoint in given:
        await rows.endpoints.save(replace(endpoint, branch_id=new.id))


async def _keep_passwords(rows: Rows, old: Branch, new: Branch, now: datetime) -> None:
    """Those that were changed since the restore. Postgres is told by the compute that starts next."""
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
            is_wished=True,
            updated_at=now,
        )
        await rows.roles.save(changed)
