"""Stop an endpoint's compute: everything committed is on disk, and it can wake again.

What was changed in its roles and databases is read before, and what it used is measured, because nobody can ask a
compute that sleeps. One that is stopped for want of clients is asked once more whether it has any. Of an endpoint
that was deleted nothing stays.
"""

from dataclasses import replace
from functools import partial

from bough import clock
from bough.domain.endpoint import Endpoint, EndpointState, moved, wishing
from bough.domain.operation import OperationAction
from bough.engine.port import EngineError, Usage
from bough.operations import contents, measuring
from bough.operations.action import Action, step
from bough.operations.contents import Look
from bough.operations.context import Context, there
from bough.operations.outcome import Done, Outcome
from bough.store.store import Rows

WHEN_QUIET = "when_quiet"  # the parameter of a stop that shall not happen to somebody at work
AFRESH = "afresh"  # the parameter of a read replica's stop whose copy is of no use any more


class SuspendCompute(Action):
    action = OperationAction.SUSPEND_COMPUTE
    forward_only = True

    @step
    async def stop(self, ctx: Context) -> Outcome:
        async with ctx.read() as rows:
            endpoint = there(await rows.endpoints.also_deleted(self.endpoint_id), "endpoint")
        if endpoint.deleted_at is not None:
            return await self._remove(endpoint, ctx)
        if endpoint.state is not EndpointState.ACTIVE and await ctx.engine.address(endpoint.id) is None:
            await self._suspend(endpoint, ctx)
            return Done("the compute sleeps already", changed=False, writes=partial(self.publish, None, None))
        if self.operation.parameters.get(WHEN_QUIET) and await self._is_in_use(ctx, endpoint):
            return Done("the compute is in use again", changed=False, writes=self.stay)
        seen = await ctx.look_at_contents(endpoint)
        usage = await measuring.measure(ctx.engine, endpoint)
        await self._suspend(endpoint, ctx)
        return Done("the compute is stopped", writes=partial(self.publish, seen, usage))

    async def _suspend(self, endpoint: Endpoint, ctx: Context) -> None:
        await ctx.engine.ensure_suspended(endpoint.id)
        if self.operation.parameters.get(AFRESH) and endpoint.volume_id is not None:
            await ctx.engine.ensure_absent(endpoint.project_id, endpoint.volume_id)

    async def _remove(self, endpoint: Endpoint, ctx: Context) -> Outcome:
        """It may run on while its branch is being read for the last time; a replica's copy goes with it."""
        seen = await ctx.look_at_contents(endpoint)
        usage = await measuring.measure(ctx.engine, endpoint)
        await ctx.engine.ensure_suspended(endpoint.id)
        if endpoint.volume_id is not None:
            await ctx.engine.ensure_absent(endpoint.project_id, endpoint.volume_id)
        return Done("the endpoint is gone", writes=partial(self.forget, endpoint, seen, usage))

    async def forget(self, endpoint: Endpoint, seen: Look | None, usage: Usage | None, rows: Rows) -> None:
        await rows.usage.stop_counting(endpoint, clock.now(), usage.cu if usage else None)
        if usage is not None:
            await measuring.note(rows, endpoint, usage)
        if seen is not None:
            await contents.follow(rows, seen)

    async def _is_in_use(self, ctx: Context, endpoint: Endpoint) -> bool:
        if endpoint.last_active is not None and endpoint.last_active > self.operation.created_at:
            return True
        try:
            return await ctx.engine.is_busy(endpoint.id)
        except EngineError:  # whoever does not answer is at work, or will be found by another
            return True

    async def publish(self, seen: Look | None, usage: Usage | None, rows: Rows) -> None:
        endpoint = there(await rows.endpoints.get(self.endpoint_id), "endpoint")
        now = clock.now()
        idle = moved(endpoint, EndpointState.IDLE, now)
        if await rows.operations.waiting_for(self.operation.id):  # a restart goes on
            idle = wishing(idle, EndpointState.ACTIVE, now)
        await rows.endpoints.save(idle)
        await rows.usage.stop_counting(endpoint, now, usage.cu if usage else None)
        if usage is not None:
            await measuring.note(rows, endpoint, usage)
        if seen is not None:
            await contents.follow(rows, seen)

    async def stay(self, rows: Rows) -> None:
        endpoint = there(await rows.endpoints.get(self.endpoint_id), "endpoint")
        await rows.endpoints.save(replace(endpoint, pending_state=None, last_active=clock.now()))
