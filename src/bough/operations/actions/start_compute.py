"""Start an endpoint's compute: on creation, on wake, and after its own crash.

The whole wish is computed from rows and handed to the engine; when Postgres accepts connections
and has its roles and databases, the endpoint becomes active. Of a read replica the engine makes the copy first,
when it has none that can still follow.
"""

from functools import partial

from bough import clock
from bough.domain.endpoint import EndpointState, reset_after_failed_start, transition_endpoint
from bough.domain.operation import RESUMES_KEY, OperationAction, OperationStatus
from bough.engine.port import Readiness
from bough.engine.spec import ComputeSpec
from bough.operations import contents_sync
from bough.operations.action import Action, step
from bough.operations.context import ActionContext, require_found
from bough.operations.outcome import Done, Outcome, Sleep
from bough.store.store import Rows


class StartCompute(Action):
    action = OperationAction.START_COMPUTE

    @step(undo="stop")
    async def launch(self, ctx: ActionContext) -> Outcome:
        endpoint = await ctx.get_endpoint(self.endpoint_id)
        ran = endpoint.state is EndpointState.ACTIVE and await ctx.engine.find_address(endpoint.id) is not None
        spec = await ctx.build_compute_spec(self.endpoint_id)
        readiness = await ctx.engine.ensure_running(spec)
        if readiness is Readiness.STARTING:
            return Sleep(0.2, "Postgres is recovering")
        if ran:
            told = partial(contents_sync.mark_applied, spec=spec)
            return Done("the compute runs already", has_changed=False, writes=told)
        return Done("the compute accepts connections", writes=partial(self.publish, spec))

    async def stop(self, ctx: ActionContext) -> None:
        """One that was to be started again after a restore, which failed, serves as before."""
        if self.operation.status is OperationStatus.CANCELLING and RESUMES_KEY in self.operation.parameters:
            return
        await ctx.engine.ensure_suspended(self.endpoint_id)
        async with ctx.transaction() as rows:
            endpoint = await rows.endpoints.get(self.endpoint_id)
            if endpoint is not None:  # else its branch could not be made, and it went with it
                await rows.endpoints.save(reset_after_failed_start(endpoint, clock.now()))
                await rows.usage.stop_metering(endpoint, clock.now())

    async def publish(self, spec: ComputeSpec, rows: Rows) -> None:
        now = clock.now()
        endpoint = require_found(await rows.endpoints.get(self.endpoint_id), "endpoint")
        await rows.endpoints.save(transition_endpoint(endpoint, EndpointState.ACTIVE, now))
        await rows.usage.start_metering(self.endpoint_id, now)
        await contents_sync.mark_applied(rows, spec)
