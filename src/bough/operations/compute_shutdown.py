"""All computes of a branch end, because it gets other data.

As with any stop, what was changed in roles and databases is read before, and what they used is measured. What was
read is written at once: whoever repeats this after a crash finds it in the rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bough import clock
from bough.domain.endpoint import Endpoint, EndpointState, EndpointType, request_state, transition_endpoint
from bough.engine.port import BranchContents, ComputeUsage, EngineError
from bough.ids import BranchId, EndpointId
from bough.operations import contents_sync, usage_measurement
from bough.operations.context import ActionContext
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedCompute:
    """An endpoint whose compute ended, and what it had used, if anybody could tell."""

    endpoint: Endpoint
    usage: ComputeUsage | None


async def read_contents(ctx: ActionContext, branch_id: BranchId) -> BranchContents:
    """Roles and databases of a branch: as its compute has them, else as rows say."""
    async with ctx.read() as rows:
        serving = await rows.endpoints.get_read_write(branch_id)
    seen = await ctx.inspect_contents(serving) if serving else None
    if seen is not None:
        return seen.actual
    async with ctx.read() as rows:
        return contents_sync.to_contents(await contents_sync.load_contents(rows, branch_id))


async def stop_computes(ctx: ActionContext, branch_id: BranchId, reason: str) -> list[StoppedCompute]:
    """Read replicas first: they follow the others. Whoever is connected is told why."""
    async with ctx.read() as rows:
        endpoints = await rows.endpoints.list_in_branch(branch_id)
    await ctx.gateways.end_sessions([endpoint.id for endpoint in endpoints], reason)
    in_order = sorted(endpoints, key=lambda each: each.type is EndpointType.READ_WRITE)
    return [await _stop(ctx, endpoint) for endpoint in in_order]


async def _stop(ctx: ActionContext, endpoint: Endpoint) -> StoppedCompute:
    seen = await ctx.inspect_contents(endpoint)
    if seen is not None and seen.has_changes:
        async with ctx.transaction() as rows:
            await contents_sync.sync_rows(rows, seen)
    usage = await usage_measurement.measure_usage(ctx.engine, endpoint)
    await ctx.engine.ensure_suspended(endpoint.id)
    return StoppedCompute(endpoint=endpoint, usage=usage)


async def record_stopped(rows: Rows, stopped: Sequence[StoppedCompute], resuming: frozenset[EndpointId]) -> None:
    """They sleep, or are about to start again; written while the branch still has the data that they served."""
    now = clock.now()
    for each in stopped:
        endpoint = await rows.endpoints.get(each.endpoint.id)
        if endpoint is None:
            continue
        if endpoint.state is EndpointState.ACTIVE:
            endpoint = transition_endpoint(endpoint, EndpointState.IDLE, now)
        wish = EndpointState.ACTIVE if endpoint.id in resuming else endpoint.state
        await rows.endpoints.save(request_state(endpoint, wish, now))
        await rows.usage.stop_metering(endpoint, now, each.usage.cu if each.usage else None)
        if each.usage is not None:
            await usage_measurement.record_usage(rows, endpoint, each.usage)


async def resume_computes(ctx: ActionContext, branch_id: BranchId) -> None:
    """Those that are to run, run as before. One that cannot sleeps, and wakes when somebody connects."""
    async with ctx.read() as rows:
        active = [each for each in await rows.endpoints.list_in_branch(branch_id) if each.state is EndpointState.ACTIVE]
    for endpoint in sorted(active, key=lambda each: each.type is not EndpointType.READ_WRITE):
        try:
            await ctx.engine.ensure_running(await ctx.build_compute_spec(endpoint.id))
        except EngineError:
            await ctx.engine.ensure_suspended(endpoint.id)
            async with ctx.transaction() as rows:
                await record_stopped(rows, [StoppedCompute(endpoint=endpoint, usage=None)], frozenset())
