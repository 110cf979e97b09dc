"""Computes between two limits are resized by what they take: larger at the first busy look, smaller after a while.

What was seen of them is only in memory: after a restart of control each begins with the size it has.
"""

import asyncio
from dataclasses import dataclass

from bough import clock, log
from bough.control.gateway.activity import EndpointActivity
from bough.domain.autoscaling import Load, ScalingState, next_scaling_state
from bough.domain.endpoint import Endpoint
from bough.engine.port import ComputeEngine, EngineError, LoadSample
from bough.ids import EndpointId
from bough.store.store import Store
from bough.tasks.inspection_schedule import InspectionSchedule
from bough.tasks.inspections import Backoff
from bough.tasks.round_robin import interleave_by_project

CONCURRENCY = 8
MAX_INTERVAL = 60.0  # seconds between two looks at a compute that stays at its smallest size and that nobody uses
_TIMEOUT_SECONDS = 5.0  # seconds that one compute is waited for

logger = log.get_logger(component="tasks")


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoadSample:
    at: float
    cpu_seconds: float
    sizing: ScalingState


class ScaleComputes:
    interval = 5.0

    def __init__(self, store: Store, engine: ComputeEngine, activity: EndpointActivity) -> None:
        self._store = store
        self._engine = engine
        self._samples: dict[EndpointId, _LoadSample] = {}
        self._backoff = Backoff()
        self._schedule = InspectionSchedule(activity, interval=self.interval, max_interval=MAX_INTERVAL)

    async def run(self) -> str:
        async with self._store.read(slow=True) as rows:
            active = await rows.endpoints.list_active()
        elastic = [each for each in active if each.min_cu < each.max_cu and each.pending_state is None]
        self._samples = {each.id: self._samples[each.id] for each in elastic if each.id in self._samples}
        gate = asyncio.Semaphore(CONCURRENCY)

        async def scale(endpoint: Endpoint) -> bool:
            async with gate:
                return await self._scale(endpoint)

        self._schedule.retain(self._samples.keys())
        due = [each for each in elastic if self._backoff.is_ready(each.id) and self._schedule.is_due(each.id)]
        due = interleave_by_project(due, lambda each: each.project_id)
        count = sum(await asyncio.gather(*map(scale, due)))
        return f"resized {count} computes" if count else ""

    async def _scale(self, endpoint: Endpoint) -> bool:
        """One that cannot be asked does not keep the others from their size."""
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                reading = await self._engine.read_load(endpoint.id)
                return await self._fit(endpoint, reading) if reading else False
        except (EngineError, TimeoutError) as error:
            logger.warning("compute_not_scaled", endpoint_id=endpoint.id, reason=str(error) or "it does not answer")
            self._backoff.back_off(endpoint.id)
            return False

    async def _fit(self, endpoint: Endpoint, reading: LoadSample) -> bool:
        cu = endpoint.max_cu if reading.cu is None else reading.cu
        sizing = self._target_sizing(endpoint, reading, cu)
        self._schedule.record(endpoint.id, is_idle=sizing.cu == cu == endpoint.min_cu)
        if sizing.cu == cu:
            return False
        await self._engine.resize(endpoint.id, sizing.cu)
        logger.info("compute_resized", endpoint_id=endpoint.id, before=cu, now=sizing.cu)
        return True

    def _target_sizing(self, endpoint: Endpoint, reading: LoadSample, cu: float) -> ScalingState:
        """After a first look, or a restart, there is nothing to compare with."""
        now, before = clock.monotonic(), self._samples.get(endpoint.id)
        sizing = before.sizing if before and before.sizing.cu == cu else ScalingState(cu=cu)
        if before and now > before.at and reading.cpu_seconds >= before.cpu_seconds:
            cores = (reading.cpu_seconds - before.cpu_seconds) / (now - before.at)
            load = Load(cores=cores, memory_bytes=reading.memory_bytes)
            sizing = next_scaling_state(sizing, load, endpoint.min_cu, endpoint.max_cu)
        self._samples[endpoint.id] = _LoadSample(at=now, cpu_seconds=reading.cpu_seconds, sizing=sizing)
        return sizing
