"""Computes between two limits are resized by what they take: larger at the first busy look, smaller after a while.

What was seen of them is only in memory: after a restart of control each begins with the size it has.
"""

import asyncio
from dataclasses import dataclass

from bough import clock, log
from bough.control.activity import Activity
from bough.domain.endpoint import Endpoint
from bough.domain.scaling import Load, Sizing, scaled
from bough.engine.port import Engine, EngineError, Reading
from bough.ids import EndpointId
from bough.store.store import Store
from bough.tasks.fairness import in_turn
from bough.tasks.look_schedule import LookSchedule
from bough.tasks.patience import Patience

AT_ONCE = 8
LONGEST_PAUSE = 60.0  # seconds between two looks at a compute that stays at its smallest size and that nobody uses
_LONGEST = 5.0  # seconds that one compute is waited for

logger = log.get(room="tasks")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    at: float
    cpu_seconds: float
    sizing: Sizing


class ScaleComputes:
    every = 5.0

    def __init__(self, store: Store, engine: Engine, activity: Activity) -> None:
        self._store = store
        self._engine = engine
        self._looks: dict[EndpointId, _Look] = {}
        self._patience = Patience()
        self._schedule = LookSchedule(activity, every=self.every, longest=LONGEST_PAUSE)

    async def run(self) -> str:
        async with self._store.read(slow=True) as rows:
            active = await rows.endpoints.active()
        elastic = [each for each in active if each.min_cu < each.max_cu and each.pending_state is None]
        self._looks = {each.id: self._looks[each.id] for each in elastic if each.id in self._looks}
        gate = asyncio.Semaphore(AT_ONCE)

        async def scale(endpoint: Endpoint) -> bool:
            async with gate:
                return await self._scale(endpoint)

        self._schedule.retain(self._looks.keys())
        due = [each for each in elastic if self._patience.has(each.id) and self._schedule.is_due(each.id)]
        due = in_turn(due, lambda each: each.project_id)
        count = sum(await asyncio.gather(*map(scale, due)))
        return f"resized {count} computes" if count else ""

    async def _scale(self, endpoint: Endpoint) -> bool:
        """One that cannot be asked does not keep the others from their size."""
        try:
            async with asyncio.timeout(_LONGEST):
                reading = await self._engine.load(endpoint.id)
                return await self._fit(endpoint, reading) if reading else False
        except (EngineError, TimeoutError) as error:
            logger.warning("compute_not_scaled", endpoint_id=endpoint.id, reason=str(error) or "it does not answer")
            self._patience.lose(endpoint.id)
            return False

    async def _fit(self, endpoint: Endpoint, reading: Reading) -> bool:
        cu = endpoint.max_cu if reading.cu is None else reading.cu
        sizing = self._wanted(endpoint, reading, cu)
        self._schedule.note(endpoint.id, is_quiet=sizing.cu == cu == endpoint.min_cu)
        if sizing.cu == cu:
            return False
        await self._engine.resize(endpoint.id, sizing.cu)
        logger.info("compute_resized", endpoint_id=endpoint.id, before=cu, now=sizing.cu)
        return True

    def _wanted(self, endpoint: Endpoint, reading: Reading, cu: float) -> Sizing:
        """After a first look, or a restart, there is nothing to compare with."""
        now, before = clock.monotonic(), self._looks.get(endpoint.id)
        sizing = before.sizing if before and before.sizing.cu == cu else Sizing(cu=cu)
        if before and now > before.at and reading.cpu_seconds >= before.cpu_seconds:
            cores = (reading.cpu_seconds - before.cpu_seconds) / (now - before.at)
            load = Load(cores=cores, memory_bytes=reading.memory_bytes)
            sizing = scaled(sizing, load, endpoint.min_cu, endpoint.max_cu)
        self._looks[endpoint.id] = _Look(at=now, cpu_seconds=reading.cpu_seconds, sizing=sizing)
        return sizing
