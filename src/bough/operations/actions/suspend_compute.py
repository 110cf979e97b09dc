"""Stop an endpoint's compute: everything committed is on disk, and it can wake again.

What was changed in its roles and databases is read before, and what it used is measured, because nobody can ask a
compute that sleeps. One that is stopped for want of clients is asked once more whether it has any. Of an endpoint
that was deleted nothing stays.
"""

from dataclasses import replace
from functools import partial

from bough import clock
from bough.domain.endpoint import Endpoint, EndpointState, request_state, transition_endpoint
from bough.domain.operation import OperationAction
from bough.engine.port import ComputeUsage, EngineError
from bough.operations import contents_sync, usage_measurement
from bough.operations.action import Action, step
from bough.operations.contents_sync import ContentsInspection
from bough.operations.context import ActionContext, require_found
from bough.operations.outcome import Done, Outcome
from bough.store.store import Rows

ONLY_IF_IDLE_KEY = "when_quiet"  # the parameter of a stop that shall not happen to somebody at work
DISCARD_COPY_KEY = "afresh"  # the parameter of a read replica's stop whose copy is of no use any more


class SuspendCompute(Action):
    action = OperationAction.SUSPEND_COMPUTE
    is_forward_only = True

    @step
    async def stop(self, ctx: ActionContext) -> Outcome:
        async with ctx.read() as rows:
            endpoint = require_found(await rows.endpoints.get_with_deleted(self.endpoint_id), "endpoint")
        if endpoint.deleted_at is not None:
            return await self._remove(endpoint, ctx)
        if endpoint.state is not EndpointState.ACTIVE and await ctx.engine.find_address(endpoint.id) is None:
            await self._suspend(endpoint, ctx)
            return Done("the compute sleeps already", has_changed=False, writes=partial(self.publish, None, None))
        if self.operation.parameters.get(ONLY_IF_IDLE_KEY) and await self._is_in_use(ctx, endpoint):
            return Done("the compute is in use again", has_changed=False, writes=self.keep_running)
        seen = await ctx.inspect_contents(endpoint)
        usage = await usage_measurement.measure_usage(ctx.engine, endpoint)
        await self._suspend(endpoint, ctx)
        return Done("the compute is stopped", writes=partial(self.publish, seen, usage))

    async def _suspend(self, endpoint: Endpoint, ctx: ActionContext) -> None:
        await ctx.engine.ensure_suspended(endpoint.id)
        if self.operation.parameters.get(DISCARD_COPY_KEY) and endpoint.volume_id is not None:
            await ctx.engine.ensure_absent(endpoint.project_id, endpoint.volume_id)

    async def _remove(self, endpoint: Endpoint, ctx: ActionContext) -> Outcome:
        """It may run on while its branch is being read for the last time; a replica's copy goes with it."""
        seen = await ctx.inspect_contents(endpoint)
        usage = await usage_measurement.measure_usage(ctx.engine, endpoint)
        await ctx.engine.ensure_suspended(endpoint.id)
        if endpoint.volume_id is not None:
            await ctx.engine.ensure_absent(endpoint.project_id, endpoint.volume_id)
        return Done("the endpoint is gone", writes=partial(self.record_removal, endpoint, seen, usage))

    async def record_removal(
        self, endpoint: Endpoint, inspection: ContentsInspection | None, usage: ComputeUsage | None, rows: Rows
    ) -> None:
        await rows.usage.stop_metering(endpoint, clock.now(), usage.cu if usage else None)
        if usage is not None:
            await usage_measurement.record_usage(rows, endpoint, usage)
        if inspection is not None:
            await contents_sync.sync_rows(rows, inspection)

    async def _is_in_use(self, ctx: ActionContext, endpoint: Endpoint) -> bool:
        if endpoint.last_active is not None and endpoint.last_active > self.operation.created_at:
            return True
        try:
            return await ctx.engine.is_busy(endpoint.id)
        except EngineError:  # whoever does not answer is at work, or will be found by another
            return True

    async def publish(self, inspection: ContentsInspection | None, usage: ComputeUsage | None, rows: Rows) -> None:
        endpoint = require_found(await rows.endpoints.get(self.endpoint_id), "endpoint")
        now = clock.now()
        idle = transition_endpoint(endpoint, EndpointState.IDLE, now)
        if await rows.operations.list_waiting_for(self.operation.id):  # a restart goes on
            idle = request_state(idle, EndpointState.ACTIVE, now)
        await rows.endpoints.save(idle)
        await rows.usage.stop_metering(endpoint, now, usage.cu if usage else None)
        if usage is not None:
            await usage_measurement.record_usage(rows, endpoint, usage)
        if inspection is not None:
            await contents_sync.sync_rows(rows, inspection)

    async def keep_running(self, rows: Rows) -> None:
        endpoint = require_found(await rows.endpoints.get(self.endpoint_id), "endpoint")
        await rows.endpoints.save(replace(endpoint, pending_state=None, last_active=clock.now()))
