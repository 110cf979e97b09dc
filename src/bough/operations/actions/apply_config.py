"""Bring new settings to a running compute, restarting it when a setting needs that.

A sleeping compute has nothing to apply: it starts with what is written then.
"""

from bough.domain.endpoint import EndpointState
from bough.domain.operation import OperationAction
from bough.engine.port import Readiness
from bough.operations.action import Action, step
from bough.operations.context import Context
from bough.operations.outcome import Done, Outcome, Sleep


class ApplyConfig(Action):
    action = OperationAction.APPLY_CONFIG

    @step
    async def apply(self, ctx: Context) -> Outcome:
        endpoint = await ctx.endpoint(self.endpoint_id)
        if endpoint.state is not EndpointState.ACTIVE:
            return Done("the compute sleeps; it wakes with the new settings", changed=False)
        readiness = await ctx.engine.ensure_running(await ctx.compute_spec(self.endpoint_id))
        if readiness is Readiness.STARTING:
            return Sleep(0.2, "Postgres is restarting")
        return Done("the compute runs with the new settings")
