"""Start an endpoint's compute: on creation, on wake, and after its own crash.

The whole wish is computed from rows and handed to the engine; when Postgres accepts connections
and has its roles and databases, the endpoint becomes active.
"""

from bough import clock
from bough.domain.endpoint import EndpointState, moved, stopped
from bough.domain.operation import OperationAction
from bough.engine.port import Readiness
from bough.operations.action import Action, step
from bough.operations.context import Context, there
from bough.operations.outcome import Done, Outcome, Sleep
from bough.store.store import Rows


class StartCompute(Action):
    action = OperationAction.START_COMPUTE

    @step(undo="stop")
    async def launch(self, ctx: Context) -> Outcome:
        readiness = await ctx.engine.ensure_running(await ctx.compute_spec(self.endpoint_id))
        if readiness is Readiness.STARTING:
            return Sleep(0.2, "Postgres is recovering")
        return Done("the compute accepts connections", writes=self.publish)

    async def stop(self, ctx: Context) -> None:
        await ctx.engine.ensure_suspended(self.endpoint_id)
        endpoint = await ctx.endpoint(self.endpoint_id)
        async with ctx.transaction() as rows:
            await rows.endpoints.save(stopped(endpoint, clock.now()))

    async def publish(self, rows: Rows) -> None:
        endpoint = there(await rows.endpoints.get(self.endpoint_id), "endpoint")
        await rows.endpoints.save(moved(endpoint, EndpointState.ACTIVE, clock.now()))
