"""Stop all computes, as `bough down` does.

Endpoints become idle and wake on the next connection. An endpoint that never suspends stays active, and so does one
whose contents could not be read: the next start of the platform starts it again.
"""

import asyncio
from typing import Protocol

from bough import clock, log
from bough.domain.endpoint import Endpoint, EndpointState, EndpointType, transition_endpoint
from bough.domain.project import SUSPEND_NEVER
from bough.engine.port import ComputeEngine, EngineError, EngineInspection
from bough.ids import EndpointId
from bough.operations import contents_inspection, contents_sync, usage_measurement
from bough.operations.contents_inspection import ContentsInspection, PlanLookup
from bough.store.store import Store

CONCURRENCY = 8

logger = log.get_logger(component="control")


class _ShutdownEngine(ComputeEngine, EngineInspection, Protocol):
    """The part of the engine that this module uses."""


async def stop_all_computes(store: Store, engine: _ShutdownEngine, get_plan: PlanLookup | None = None) -> None:
    observed = await engine.observe()
    semaphore = asyncio.Semaphore(CONCURRENCY)

    async def stop(endpoint_id: EndpointId) -> None:
        async with semaphore:
            await _stop(store, engine, endpoint_id, get_plan)

    results = await asyncio.gather(
        *map(stop, observed.running_endpoints | observed.spare_endpoints), return_exceptions=True
    )
    for error in filter(None, results):
        raise error  # after all computes have been handled


async def _stop(store: Store, engine: _ShutdownEngine, endpoint_id: EndpointId, get_plan: PlanLookup | None) -> None:
    async with store.read() as rows:
        endpoint = await rows.endpoints.get(endpoint_id)
    inspection = await _inspect(store, engine, endpoint, get_plan) if endpoint else None
    usage = await usage_measurement.measure_usage(engine, endpoint) if endpoint else None
    await engine.ensure_suspended(endpoint_id)
    if endpoint is not None and usage is not None:
        async with store.transaction(durable=False) as rows:
            await usage_measurement.record_usage(rows, endpoint, usage)
    is_replica = endpoint is not None and endpoint.type is EndpointType.READ_ONLY  # has no contents of its own
    if inspection is None and not is_replica:
        return
    async with store.transaction(durable=False) as rows:  # closing the store flushes it
        if inspection is not None:
            await contents_sync.sync_rows(rows, inspection)
        endpoint = await rows.endpoints.get(endpoint_id)
        if endpoint is None or endpoint.state is not EndpointState.ACTIVE:
            return
        if endpoint.suspend_timeout_seconds != SUSPEND_NEVER:
            await rows.endpoints.save(transition_endpoint(endpoint, EndpointState.IDLE, clock.now()))
        await rows.usage.stop_metering(endpoint, clock.now(), usage.cu if usage else None)


async def _inspect(
    store: Store, engine: _ShutdownEngine, endpoint: Endpoint, get_plan: PlanLookup | None
) -> ContentsInspection | None:
    try:
        return await contents_inspection.inspect_contents(store, engine, endpoint, get_plan)
    except EngineError as error:
        logger.warning("contents_not_read", endpoint_id=endpoint.id, reason=error.public_message)
        return None
