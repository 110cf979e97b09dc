"""Bring new settings to a running compute, restarting it when a setting needs that; or change roles and databases.

A sleeping compute has no settings to apply: it starts with what is written then. A change to roles or
databases is made at once, whether the branch has a compute that runs or not. When Postgres refuses it, the rows
are as they were before.
"""

from dataclasses import replace
from functools import partial

from bough import clock
from bough.domain import catalog_change as changes
from bough.domain.catalog_change import (
    AlterDatabase,
    CreateDatabase,
    CreateRole,
    DropDatabase,
    DropRole,
    RequestedChange,
    SetPassword,
)
from bough.domain.endpoint import EndpointState
from bough.domain.operation import CHANGE_KEY, OperationAction
from bough.engine.port import Readiness
from bough.operations import contents_sync
from bough.operations.action import Action, step
from bough.operations.context import ActionContext
from bough.operations.outcome import Done, Outcome, Sleep
from bough.store.store import Rows

PREVIOUS_KEY = "before"  # the parameter with the name and owner that a database had


class ApplyConfig(Action):
    action = OperationAction.APPLY_CONFIG

    @step(undo="take_back")
    async def apply(self, ctx: ActionContext) -> Outcome:
        if self._change is not None:
            return await self._apply_change(self._change, ctx)
        endpoint = await ctx.get_endpoint(self.endpoint_id)
        if endpoint.state is not EndpointState.ACTIVE:
            return Done("the compute sleeps; it wakes with the new settings", has_changed=False)
        spec = await ctx.build_compute_spec(self.endpoint_id)
        if await ctx.engine.ensure_running(spec) is Readiness.STARTING:
            return Sleep(0.2, "Postgres is restarting")
        return Done("the compute runs with the new settings", writes=partial(contents_sync.mark_applied, spec=spec))

    async def take_back(self, ctx: ActionContext) -> None:
        if self._change is not None:
            async with ctx.transaction() as rows:
                await self._revert_rows(self._change, rows)

    @property
    def _change(self) -> RequestedChange | None:
        fields = self.operation.parameters.get(CHANGE_KEY)
        return None if fields is None else changes.decode_change(fields)

    async def _apply_change(self, change: RequestedChange, ctx: ActionContext) -> Outcome:
        branch = await ctx.get_branch(self.project_id, self.branch_id)
        verifier = None
        if isinstance(change, CreateRole | SetPassword):
            async with ctx.read() as rows:
                role = await rows.roles.get(branch.id, change.name)
            verifier = role.verifier if role else None
            change = replace(change, verifier=verifier)
        await ctx.engine.apply_change(await ctx.build_branch_spec(self.project_id, self.branch_id), change)
        return Done("the change is made", writes=partial(self._mark_applied, change, verifier))

    async def _mark_applied(self, change: RequestedChange, verifier: str | None, rows: Rows) -> None:
        """What Postgres knows by now is no longer a wish, and what is gone has no row."""
        now = clock.now()
        match change:
            case CreateRole() | SetPassword():
                await rows.roles.mark_applied(self.branch_id, change.name, verifier, now)
            case DropRole():
                await rows.roles.remove(self.branch_id, change.name)
            case CreateDatabase():
                await rows.databases.mark_applied(self.branch_id, change.name, now)
            case AlterDatabase():
                await rows.databases.mark_applied(self.branch_id, change.new_name, now)
            case DropDatabase():
                if database := await rows.databases.get(self.branch_id, change.name):
                    await rows.databases.remove(database)

    async def _revert_rows(self, change: RequestedChange, rows: Rows) -> None:
        """Rows as they were before. Of a password the old verifier is forgotten; the next look finds it again."""
        match change:
            case CreateRole():
                await rows.roles.remove(self.branch_id, change.name)
            case CreateDatabase():
                if database := await rows.databases.get(self.branch_id, change.name):
                    await rows.databases.remove(database)
            case AlterDatabase():
                if database := await rows.databases.get(self.branch_id, change.new_name):
                    before = self.operation.parameters[PREVIOUS_KEY]
                    await rows.databases.save(replace(database, **before, is_wished=False, updated_at=clock.now()))
            case SetPassword():
                if role := await rows.roles.get(self.branch_id, change.name):
                    await rows.roles.save(replace(role, is_wished=False))
            case DropRole() | DropDatabase():
                pass
