"""Bring new settings to a running compute, restarting it when a setting needs that; or change roles and databases.

A sleeping compute has no settings to apply: it starts with what is written then. A change to roles or
databases is made at once, whether the branch has a compute that runs or not. When Postgres refuses it, the rows
are as they were before.
"""

from dataclasses import replace
from functools import partial

from bough import clock
from bough.domain import change as changes
from bough.domain.change import Asked, ChangeDatabase, DropDatabase, DropRole, MakeDatabase, MakeRole, SetPassword
from bough.domain.endpoint import EndpointState
from bough.domain.operation import CHANGE, OperationAction
from bough.engine.port import Readiness
from bough.operations import contents
from bough.operations.action import Action, step
from bough.operations.context import Context
from bough.operations.outcome import Done, Outcome, Sleep
from bough.store.store import Rows

BEFORE = "before"  # the parameter with the name and owner that a database had


class ApplyConfig(Action):
    action = OperationAction.APPLY_CONFIG

    @step(undo="take_back")
    async def apply(self, ctx: Context) -> Outcome:
        if self._change is not None:
            return await self._make(self._change, ctx)
        endpoint = await ctx.endpoint(self.endpoint_id)
        if endpoint.state is not EndpointState.ACTIVE:
            return Done("the compute sleeps; it wakes with the new settings", changed=False)
        spec = await ctx.compute_spec(self.endpoint_id)
        if await ctx.engine.ensure_running(spec) is Readiness.STARTING:
            return Sleep(0.2, "Postgres is restarting")
        return Done("the compute runs with the new settings", writes=partial(contents.told, spec=spec))

    async def take_back(self, ctx: Context) -> None:
        if self._change is not None:
            async with ctx.transaction() as rows:
                await self._unwish(self._change, rows)

    @property
    def _change(self) -> Asked | None:
        fields = self.operation.parameters.get(CHANGE)
        return None if fields is None else changes.read(fields)

    async def _make(self, change: Asked, ctx: Context) -> Outcome:
        branch = await ctx.branch(self.project_id, self.branch_id)
        verifier = None
        if isinstance(change, MakeRole | SetPassword):
            async with ctx.read() as rows:
                role = await rows.roles.get(branch.id, change.name)
            verifier = role.verifier if role else None
            change = replace(change, verifier=verifier)
        await ctx.engine.change(await ctx.branch_spec(self.project_id, self.branch_id), change)
        return Done("the change is made", writes=partial(self._told, change, verifier))

    async def _told(self, change: Asked, verifier: str | None, rows: Rows) -> None:
        """What Postgres knows by now is no longer a wish, and what is gone has no row."""
        now = clock.now()
        match change:
            case MakeRole() | SetPassword():
                await rows.roles.set_told(self.branch_id, change.name, verifier, now)
            case DropRole():
                await rows.roles.remove(self.branch_id, change.name)
            case MakeDatabase():
                await rows.databases.set_told(self.branch_id, change.name, now)
            case ChangeDatabase():
                await rows.databases.set_told(self.branch_id, change.new_name, now)
            case DropDatabase():
                if database := await rows.databases.get(self.branch_id, change.name):
                    await rows.databases.remove(database)

    async def _unwish(self, change: Asked, rows: Rows) -> None:
        """Rows as they were before. Of a password the old verifier is forgotten; the next look finds it again."""
        match change:
            case MakeRole():
                await rows.roles.remove(self.branch_id, change.name)
            case MakeDatabase():
                if database := await rows.databases.get(self.branch_id, change.name):
                    await rows.databases.remove(database)
            case ChangeDatabase():
                if database := await rows.databases.get(self.branch_id, change.new_name):
                    before = self.operation.parameters[BEFORE]
                    await rows.databases.save(replace(database, **before, is_wished=False, updated_at=clock.now()))
            case SetPassword():
                if role := await rows.roles.get(self.branch_id, change.name):
                    await rows.roles.save(replace(role, is_wished=False))
            case DropRole() | DropDatabase():
                pass
