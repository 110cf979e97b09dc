"""Stops all computes of a branch before it gets other data.

As with every stop, changes to roles and databases are read and the usage is measured first. Changes are written at
once, so that a repeated step finds them in the rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bough import clock
from bough.domain.endpoint import Endpoint, EndpointState, EndpointType, request_state, transition_endpoint
from bough.engine.port import BranchContents, ComputeUsage, EngineError
from bough.ids import BranchId, EndpointId
from bough.operations import contents_inspection, contents_sync, usage_measurement
from bough.operations.context import ActionContext
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedCompute:
    """An endpoint whose compute was stopped, and its last usage, if the compute could be queried."""

    endpoint: Endpoint
    usage: ComputeUsage | None


async def read_contents(ctx: ActionContext, branch_id: BranchId) -> BranchContents:
    """Read the roles and databases of a branch from its compute, or from rows when the compute does not run."""
    async with ctx.read() as rows:
        serving = await rows.endpoints.get_read_write(branch_id)
    inspection = await ctx.inspect_contents(serving) if serving else None
    if inspection is not None:
        return inspection.actual
    async with ctx.read() as rows:
        return contents_inspection.to_contents(await contents_inspection.load_contents(rows, branch_id))


async def stop_computes(ctx: ActionContext, branch_id: BranchId, reason: str) -> list[StoppedCompute]:
    """Stop read replicas first, because they follow the read-write compute. Connected clients are told the reason."""
    async with ctx.read() as rows:
        endpoints = await rows.endpoints.list_in_branch(branch_id)
    await ctx.gateways.end_sessions([endpoint.id for endpoint in endpoints], reason)
    in_order = sorted(endpoints, key=lambda each: each.type is EndpointType.READ_WRITE)
    return [await _stop(ctx, endpoint) for endpoint in in_order]


async def _stop(ctx: ActionContext, endpoint: Endpoint) -> StoppedCompute:
    inspection = await ctx.inspect_contents(endpoint)
    if inspection is not None and inspection.has_changes:
        async with ctx.transaction() as rows:
            await contents_sync.sync_rows(rows, inspection)
    usage = await usage_measurement.measure_usage(ctx.engine_inspection, endpoint)
    await ctx.compute_engine.ensure_suspended(endpoint.id)
    return StoppedCompute(endpoint=endpoint, usage=usage)


async def record_stopped(rows: Rows, stopped: Sequence[StoppedCompute], resuming: frozenset[EndpointId]) -> None:
    """Mark the endpoints as idle, or as starting again. Call it before the branch gets its new data."""
    now = clock.now()
    for each in stopped:
        endpoint = await rows.endpoints.get(each.endpoint.id)
        if endpoint is None:
            continue
        if endpoint.state is EndpointState.ACTIVE:
            endpoint = transition_endpoint(endpoint, EndpointState.IDLE, now)
        target_state = EndpointState.ACTIVE if endpoint.id in resuming else endpoint.state
        await rows.endpoints.save(request_state(endpoint, target_state, now))
        await rows.usage.stop_metering(endpoint, now, each.usage.cu if each.usage else None)
        if each.usage is not None:
            await usage_measurement.record_usage(rows, endpoint, each.usage)


async def resume_computes(ctx: ActionContext, branch_id: BranchId) -> None:
    """Start the active computes again. One that cannot start is suspended and wakes on the next connection."""
    async with ctx.read() as rows:
        active = [each for each in await rows.endpoints.list_in_branch(branch_id) if each.state is EndpointState.ACTIVE]
    for endpoint in sorted(active, key=lambda each: each.type is not EndpointType.READ_WRITE):
        try:
            await ctx.compute_engine.ensure_running(await ctx.build_compute_spec(endpoint.id))
        except EngineError:
            await ctx.compute_engine.ensure_suspended(endpoint.id)
            async with ctx.transaction() as rows:
                await record_stopped(rows, [StoppedCompute(endpoint=endpoint, usage=None)], frozenset())
