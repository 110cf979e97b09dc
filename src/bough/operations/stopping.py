"""All computes of a branch end, because it gets other data.

As with any stop, what was changed in roles and databases is read before, and what they used is measured. What was
read is written at once: whoever repeats this after a crash finds it in the rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bough import clock
from bough.domain.endpoint import Endpoint, EndpointState, EndpointType, moved, wishing
from bough.engine.port import Contents, EngineError, Usage
from bough.ids import BranchId, EndpointId
from bough.operations import contents, measuring
from bough.operations.context import Context
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """An endpoint whose compute ended, and what it had used, if anybody could tell."""

    endpoint: Endpoint
    usage: Usage | None


async def contents_now(ctx: Context, branch_id: BranchId) -> Contents:
    """Roles and databases of a branch: as its compute has them, else as rows say."""
    async with ctx.read() as rows:
        serving = await rows.endpoints.read_write(branch_id)
    seen = await ctx.look_at_contents(serving) if serving else None
    if seen is not None:
        return seen.now
    async with ctx.read() as rows:
        return contents.as_known(await contents.known(rows, branch_id))


async def stop_all(ctx: Context, branch_id: BranchId, why: str) -> list[Stopped]:
    """Read replicas first: they follow the others. Whoever is connected is told why."""
    async with ctx.read() as rows:
        endpoints = await rows.endpoints.of_branch(branch_id)
    await ctx.doors.end([endpoint.id for endpoint in endpoints], why)
    in_order = sorted(endpoints, key=lambda each: each.type is EndpointType.READ_WRITE)
    return [await _stop(ctx, endpoint) for endpoint in in_order]


async def _stop(ctx: Context, endpoint: Endpoint) -> Stopped:
    seen = await ctx.look_at_contents(endpoint)
    if seen is not None and seen.differs:
        async with ctx.transaction() as rows:
            await contents.follow(rows, seen)
    usage = await measuring.measure(ctx.engine, endpoint)
    await ctx.engine.ensure_suspended(endpoint.id)
    return Stopped(endpoint=endpoint, usage=usage)


async def note(rows: Rows, stopped: Sequence[Stopped], starting: frozenset[EndpointId]) -> None:
    """They sleep, or are about to start again; written while the branch still has the data that they served."""
    now = clock.now()
    for each in stopped:
        endpoint = await rows.endpoints.get(each.endpoint.id)
        if endpoint is None:
            continue
        if endpoint.state is EndpointState.ACTIVE:
            endpoint = moved(endpoint, EndpointState.IDLE, now)
        wish = EndpointState.ACTIVE if endpoint.id in starting else endpoint.state
        await rows.endpoints.save(wishing(endpoint, wish, now))
        await rows.usage.stop_counting(endpoint, now, each.usage.cu if each.usage else None)
        if each.usage is not None:
            await measuring.note(rows, endpoint, each.usage)


async def resume(ctx: Context, branch_id: BranchId) -> None:
    """Those that are to run, run as before. One that cannot sleeps, and wakes when somebody connects."""
    async with ctx.read() as rows:
        active = [each for each in await rows.endpoints.of_branch(branch_id) if each.state is EndpointState.ACTIVE]
    for endpoint in sorted(active, key=lambda each: each.type is not EndpointType.READ_WRITE):
        try:
            await ctx.engine.ensure_running(await ctx.compute_spec(endpoint.id))
        except EngineError:
            await ctx.engine.ensure_suspended(endpoint.id)
            async with ctx.transaction() as rows:
                await note(rows, [Stopped(endpoint=endpoint, usage=None)], frozenset())
