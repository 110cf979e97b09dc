"""Stop every compute, as `bough down` does.

Endpoints sleep then and wake when somebody connects. Those that shall never sleep stay active, and so do
those whose contents could not be read: the next start of the platform starts them again.
"""

import asyncio
from typing import Protocol

from bough import clock, log
from bough.domain.endpoint import Endpoint, EndpointState, EndpointType, transition_endpoint
from bough.domain.project import SUSPEND_NEVER
from bough.engine.port import ComputeEngine, EngineError, EngineInspection
from bough.ids import EndpointId
from bough.operations import contents_sync, usage_measurement
from bough.operations.contents_sync import ContentsInspection, PlanLookup
from bough.store.store import Store

CONCURRENCY = 8

logger = log.get_logger(component="control")


class _Engine(ComputeEngine, EngineInspection, Protocol):
    """The part of the engine that this module uses."""


async def stop_all_computes(store: Store, engine: _Engine, plans: PlanLookup | None = None) -> None:
    seen = await engine.observe()
    gate = asyncio.Semaphore(CONCURRENCY)

    async def stop(endpoint_id: EndpointId) -> None:
        async with gate:
            await _stop(store, engine, endpoint_id, plans)

    done = await asyncio.gather(*map(stop, seen.running_endpoints | seen.spare_endpoints), return_exceptions=True)
    for error in filter(None, done):
        raise error  # the others are stopped all the same


async def _stop(store: Store, engine: _Engine, endpoint_id: EndpointId, plans: PlanLookup | None) -> None:
    async with store.read() as rows:
        endpoint = await rows.endpoints.get(endpoint_id)
    found = await _inspect(store, engine, endpoint, plans) if endpoint else None
    usage = await usage_measurement.measure_usage(engine, endpoint) if endpoint else None
    await engine.ensure_suspended(endpoint_id)
    if endpoint is not None and usage is not None:
        async with store.transaction(durable=False) as rows:
            await usage_measurement.record_usage(rows, endpoint, usage)
    follows = endpoint is not None and endpoint.type is EndpointType.READ_ONLY  # there is nothing to read of it
    if found is None and not follows:
        return
    async with store.transaction(durable=False) as rows:  # closing the store brings it to the disk
        if found is not None:
            await contents_sync.sync_rows(rows, found)
        endpoint = await rows.endpoints.get(endpoint_id)
        if endpoint is None or endpoint.state is not EndpointState.ACTIVE:
            return
        if endpoint.suspend_timeout_seconds != SUSPEND_NEVER:
            await rows.endpoints.save(transition_endpoint(endpoint, EndpointState.IDLE, clock.now()))
        await rows.usage.stop_metering(endpoint, clock.now(), usage.cu if usage else None)


async def _inspect(
    store: Store, engine: _Engine, endpoint: Endpoint, plans: PlanLookup | None
) -> ContentsInspection | None:
    try:
        return await contents_sync.inspect_contents(store, engine, endpoint, plans)
    except EngineError as error:
        logger.warning("contents_not_read", endpoint_id=endpoint.id, reason=error.public_message)
        return None
