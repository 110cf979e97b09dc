"""Resizes computes within their limits by their load: up at the first busy sample, down after a while.

The samples are in memory only: after a restart of control, each compute starts with its current size.
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
MAX_INTERVAL = 60.0  # seconds between samples of an unused compute at its minimum size
_TIMEOUT_SECONDS = 5.0  # per compute

logger = log.get_logger(component="tasks")


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreviousSample:
    at: float
    cpu_seconds: float
    state: ScalingState


class ScaleComputes:
    interval = 5.0

    def __init__(self, store: Store, engine: ComputeEngine, activity: EndpointActivity) -> None:
        self._store = store
        self._engine = engine
        self._samples: dict[EndpointId, _PreviousSample] = {}
        self._backoff = Backoff()
        self._schedule = InspectionSchedule(activity, interval=self.interval, max_interval=MAX_INTERVAL)

    async def run(self) -> str:
        async with self._store.read(slow=True) as rows:
            active = await rows.endpoints.list_active()
        elastic = [each for each in active if each.min_cu < each.max_cu and each.pending_state is None]
        self._samples = {each.id: self._samples[each.id] for each in elastic if each.id in self._samples}
        semaphore = asyncio.Semaphore(CONCURRENCY)

        async def scale(endpoint: Endpoint) -> bool:
            async with semaphore:
                return await self._scale(endpoint)

        self._schedule.retain(self._samples.keys())
        due = [each for each in elastic if self._backoff.is_ready(each.id) and self._schedule.is_due(each.id)]
        due = interleave_by_project(due, lambda each: each.project_id)
        count = sum(await asyncio.gather(*map(scale, due)))
        return f"resized {count} computes" if count else ""

    async def _scale(self, endpoint: Endpoint) -> bool:
        """Resize one compute. A failure does not affect the others."""
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                sample = await self._engine.read_load(endpoint.id)
                return await self._resize_if_needed(endpoint, sample) if sample else False
        except (EngineError, TimeoutError) as error:
            logger.warning(
                "compute_not_scaled", endpoint_id=endpoint.id, reason=str(error) or "The compute does not respond."
            )
            self._backoff.back_off(endpoint.id)
            return False

    async def _resize_if_needed(self, endpoint: Endpoint, sample: LoadSample) -> bool:
        cu = endpoint.max_cu if sample.cu is None else sample.cu
        state = self._next_state(endpoint, sample, cu)
        self._schedule.record(endpoint.id, is_idle=state.cu == cu == endpoint.min_cu)
        if state.cu == cu:
            return False
        await self._engine.resize(endpoint.id, state.cu)
        logger.info("compute_resized", endpoint_id=endpoint.id, before=cu, after=state.cu)
        return True

    def _next_state(self, endpoint: Endpoint, sample: LoadSample, cu: float) -> ScalingState:
        """Return the next state, with the size. The first sample after a start has nothing to compare with."""
        now, before = clock.monotonic(), self._samples.get(endpoint.id)
        state = before.state if before and before.state.cu == cu else ScalingState(cu=cu)
        if before and now > before.at and sample.cpu_seconds >= before.cpu_seconds:
            cores = (sample.cpu_seconds - before.cpu_seconds) / (now - before.at)
            load = Load(cores=cores, memory_bytes=sample.memory_bytes)
            state = next_scaling_state(state, load, endpoint.min_cu, endpoint.max_cu)
        self._samples[endpoint.id] = _PreviousSample(at=now, cpu_seconds=sample.cpu_seconds, state=state)
        return state
