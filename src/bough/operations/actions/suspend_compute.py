"""Stop an endpoint's compute: everything committed is on disk, and it can wake again.

What was changed about its logins is read before, because nobody can ask a compute that sleeps. One that
is stopped for want of clients is asked once more whether it has any.
"""

from dataclasses import replace
from functools import partial

from bough import clock
from bough.domain.endpoint import Endpoint, EndpointState, moved, wishing
from bough.domain.operation import OperationAction
from bough.engine.port import EngineError
from bough.operations import logins
from bough.operations.action import Action, step
from bough.operations.context import Context, there
from bough.operations.logins import Look
from bough.operations.outcome import Done, Outcome
from bough.store.store import Rows

WHEN_QUIET = "when_quiet"  # the parameter of a stop that shall not happen to somebody at work


class SuspendCompute(Action):
    action = OperationAction.SUSPEND_COMPUTE
    forward_only = True

    @step
    async def stop(self, ctx: Context) -> Outcome:
        endpoint = await ctx.endpoint(self.endpoint_id)
        if endpoint.state is not EndpointState.ACTIVE and await ctx.engine.address(endpoint.id) is None:
            await ctx.engine.ensure_suspended(self.endpoint_id)
            return Done("the compute sleeps already", changed=False, writes=partial(self.publish, None))
        if self.operation.parameters.get(WHEN_QUIET) and await self._is_in_use(ctx, endpoint):
            return Done("the compute is in use again", changed=False, writes=self.stay)
        seen = await ctx.look_at_logins(endpoint)
        await ctx.engine.ensure_suspended(self.endpoint_id)
        return Done("the compute is stopped", writes=partial(self.publish, seen))

    async def _is_in_use(self, ctx: Context, endpoint: Endpoint) -> bool:
        if endpoint.last_active is not None and endpoint.last_active > self.operation.created_at:
            return True
        try:
            return await ctx.engine.is_busy(endpoint.id)
        except EngineError:  # whoever does not answer is at work, or will be found by another
            return True

    async def publish(self, seen: Look | None, rows: Rows) -> None:
        endpoint = there(await rows.endpoints.get(self.endpoint_id), "endpoint")
        now = clock.now()
        idle = moved(endpoint, EndpointState.IDLE, now)
        if await rows.operations.waiting_for(self.operation.id):  # a restart goes on
            idle = wishing(idle, EndpointState.ACTIVE, now)
        await rows.endpoints.save(idle)
        await rows.usage.stop_counting(endpoint, now)
        if seen is not None:
            await logins.follow(rows, seen)

    async def stay(self, rows: Rows) -> None:
        endpoint = there(await rows.endpoints.get(self.endpoint_id), "endpoint")
        await rows.endpoints.save(replace(endpoint, pending_state=None, last_active=clock.now()))
