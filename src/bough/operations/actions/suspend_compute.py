"""Suspend the compute of an endpoint: all committed data is on disk, and a connection starts it again.

Before it stops, changes to its roles and databases are read and its usage is measured, because a suspended compute
cannot be queried. A suspension for inactivity first checks again that no client is active. For a deleted endpoint
everything is removed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from bough import clock
from bough.domain.endpoint import Endpoint, EndpointState, request_state, transition_endpoint
from bough.domain.locks import LockLevel, LockRequest
from bough.domain.operation import OperationKind
from bough.engine.port import ComputeUsage, EngineError
from bough.operations import contents_sync, usage_measurement
from bough.operations.action import Action, step
from bough.operations.contents_inspection import ContentsInspection
from bough.operations.context import ActionContext, require_found
from bough.operations.outcome import Done, Outcome
from bough.operations.params import Params
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendComputeParams(Params):
    only_if_idle: bool = False  # do nothing while a client is active
    discards_copy: bool = False  # a read replica's copy cannot catch up any more

    def to_stored(self) -> dict[str, Any]:
        flags = {"when_quiet": self.only_if_idle, "afresh": self.discards_copy}
        return {name: True for name, is_set in flags.items() if is_set}

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any], version: int) -> Self:
        return cls(only_if_idle=bool(stored.get("when_quiet")), discards_copy=bool(stored.get("afresh")))


class SuspendCompute(Action[SuspendComputeParams]):
    kind = OperationKind.SUSPEND_COMPUTE
    params_type = SuspendComputeParams
    is_forward_only = True

    @classmethod
    def locks(cls, params: SuspendComputeParams, step: str | None) -> LockRequest:
        return LockRequest(level=LockLevel.ENDPOINT)

    @step
    async def stop(self, ctx: ActionContext) -> Outcome:
        async with ctx.read() as rows:
            endpoint = require_found(await rows.endpoints.get_with_deleted(self.endpoint_id), "endpoint")
        if endpoint.deleted_at is not None:
            return await self._remove(endpoint, ctx)
        if endpoint.state is not EndpointState.ACTIVE and await ctx.compute_engine.find_address(endpoint.id) is None:
            await self._suspend(endpoint, ctx)
            return Done("the compute is already suspended", has_changed=False, writes=partial(self.publish, None, None))
        if self.params.only_if_idle and await self._is_in_use(ctx, endpoint):
            return Done("the compute is in use again", has_changed=False, writes=self.keep_running)
        inspection = await ctx.inspect_contents(endpoint)
        usage = await usage_measurement.measure_usage(ctx.engine_inspection, endpoint)
        await self._suspend(endpoint, ctx)
        return Done("the compute is suspended", writes=partial(self.publish, inspection, usage))

    async def _suspend(self, endpoint: Endpoint, ctx: ActionContext) -> None:
        await ctx.compute_engine.ensure_suspended(endpoint.id)
        if self.params.discards_copy and endpoint.volume_id is not None:
            await ctx.branch_engine.ensure_absent(endpoint.project_id, endpoint.volume_id)

    async def _remove(self, endpoint: Endpoint, ctx: ActionContext) -> Outcome:
        """Remove the compute of a deleted endpoint, and the copy of a read replica."""
        inspection = await ctx.inspect_contents(endpoint)
        usage = await usage_measurement.measure_usage(ctx.engine_inspection, endpoint)
        await ctx.compute_engine.ensure_suspended(endpoint.id)
        if endpoint.volume_id is not None:
            await ctx.branch_engine.ensure_absent(endpoint.project_id, endpoint.volume_id)
        return Done("the endpoint is removed", writes=partial(self.record_removal, endpoint, inspection, usage))

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
            return await ctx.compute_engine.is_busy(endpoint.id)
        except EngineError:  # a compute that does not answer may be busy; if it hangs, another task finds it
            return True

    async def publish(self, inspection: ContentsInspection | None, usage: ComputeUsage | None, rows: Rows) -> None:
        endpoint = require_found(await rows.endpoints.get(self.endpoint_id), "endpoint")
        now = clock.now()
        idle = transition_endpoint(endpoint, EndpointState.IDLE, now)
        if await rows.operations.list_waiting_for(self.operation.id):  # this is the first half of a restart
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
