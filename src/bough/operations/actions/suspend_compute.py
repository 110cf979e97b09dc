"""Stop an endpoint's compute: everything committed is on disk, and it can wake again."""

from bough import clock
from bough.domain.endpoint import EndpointState, moved
from bough.domain.operation import OperationAction
from bough.operations.action import Action, step
from bough.operations.context import Context, there
from bough.operations.outcome import Done, Outcome
from bough.store.store import Rows


class SuspendCompute(Action):
    action = OperationAction.SUSPEND_COMPUTE
    forward_only = True

    @step
    async def stop(self, ctx: Context) -> Outcome:
        await ctx.engine.ensure_suspended(self.endpoint_id)
        return Done("the compute is stopped", writes=self.publish)

    async def publish(self, rows: Rows) -> None:
        endpoint = there(await rows.endpoints.get(self.endpoint_id), "endpoint")
        await rows.endpoints.save(moved(endpoint, EndpointState.IDLE, clock.now()))
