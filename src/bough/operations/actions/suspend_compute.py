"""Stop an endpoint's compute: everything committed is on disk, and it can wake again."""

from bough import clock
from bough.domain.endpoint import EndpointState, moved
from bough.domain.operation import OperationAction
from bough.operations.action import Action, step
from bough.operations.context import Context
from bough.operations.outcome import Done, Goto, Outcome


class SuspendCompute(Action):
    action = OperationAction.SUSPEND_COMPUTE
    forward_only = True

    @step
    async def stop(self, ctx: Context) -> Outcome:
        await ctx.engine.ensure_suspended(self.endpoint_id)
        return Goto(self.publish)

    @step
    async def publish(self, ctx: Context) -> Outcome:
        endpoint = await ctx.endpoint(self.endpoint_id)
        async with ctx.transaction() as rows:
            await rows.endpoints.save(moved(endpoint, EndpointState.IDLE, clock.now()))
        return Done("the compute is stopped")
