"""Bring new settings to a running compute, restarting it when a setting needs that.

A sleeping compute has nothing to apply: it starts with what is written then.
"""

from functools import partial

from bough.domain.endpoint import EndpointState
from bough.domain.operation import OperationAction
from bough.engine.port import Readiness
from bough.engine.spec import ComputeSpec
from bough.operations import logins
from bough.operations.action import Action, step
from bough.operations.context import Context
from bough.operations.outcome import Done, Outcome, Sleep
from bough.store.store import Rows


class ApplyConfig(Action):
    action = OperationAction.APPLY_CONFIG

    @step
    async def apply(self, ctx: Context) -> Outcome:
        endpoint = await ctx.endpoint(self.endpoint_id)
        if endpoint.state is not EndpointState.ACTIVE:
            return Done("the compute sleeps; it wakes with the new settings", changed=False)
        spec = await ctx.compute_spec(self.endpoint_id)
        if await ctx.engine.ensure_running(spec) is Readiness.STARTING:
            return Sleep(0.2, "Postgres is restarting")
        return Done("the compute runs with the new settings", writes=partial(self.tell, spec))

    async def tell(self, spec: ComputeSpec, rows: Rows) -> None:
        """What Postgres knows by now is no longer a wish."""
        await logins.told(rows, spec.branch_id, spec.wished_roles)
