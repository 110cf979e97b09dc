"""Reads the statistics of computes that were used, in sessions that stay open while a compute is busy.

A compute that nobody used since its last reading has counted nothing, so it is not asked. A busy one is read in every
round and once more afterwards, because Postgres reports the last transactions of a session up to ten seconds late.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from bough import clock
from bough.control.gateway.activity import EndpointActivity
from bough.domain.endpoint import Endpoint, EndpointType
from bough.engine.port import ComputeStatistics, ProcessSample, SamplingEngine
from bough.ids import EndpointId
from bough.tasks.inspections import InspectionPool
from bough.tasks.round_robin import interleave_by_project

CONCURRENCY = 16
MAX_OPENED = 64  # sessions opened in one round; each costs milliseconds of CPU time
PHASE_SECONDS = 4.0  # what unresponsive computes can delay a round, for primaries and for read replicas
# CPU time that shows activity without a client, such as a subscription or a scheduled job. An idle Postgres takes about
# 0.01 s in 15 s, and 0.1 s when autovacuum looks around.
BUSY_CPU_SECONDS = 0.15  # since the last round
UNREAD_CPU_SECONDS = 2.0  # since the last reading


@dataclass(frozen=True, slots=True)
class _LastRead:
    at: float
    cpu_seconds: float


class StatisticsReads:
    def __init__(self, engine: SamplingEngine, activity: EndpointActivity) -> None:
        self._engine = engine
        self._activity = activity
        self._last: dict[EndpointId, _LastRead] = {}
        self._cpu_seconds: dict[EndpointId, float] = {}  # in the last round
        self._pending: set[EndpointId] = set()  # computes that may have counted something since their last reading
        self._open: set[EndpointId] = set()  # computes with an open session
        self._found: dict[EndpointId, ComputeStatistics] = {}
        self._pool: InspectionPool[Endpoint] = InspectionPool(CONCURRENCY, self._read)

    async def run(
        self, active: Sequence[Endpoint], processes: Mapping[EndpointId, ProcessSample]
    ) -> Mapping[EndpointId, ComputeStatistics]:
        """Return what was read in this round. `is_unchanged` tells about the other computes."""
        seconds = {each.id: processes[each.id].cpu_seconds for each in active}
        self._last = {each: last for each, last in self._last.items() if each in seconds}
        busy = self._find_busy(active, seconds)
        self._cpu_seconds = seconds
        self._pending = (self._pending & seconds.keys()) | busy
        due, self._found = self._choose(active), {}
        # Primaries first: the lag of a read replica is its distance to a position that its primary had before.
        for is_replica in (False, True):
            phase = [each for each in due if (each.type is EndpointType.READ_ONLY) == is_replica]
            with suppress(TimeoutError):
                async with asyncio.timeout(PHASE_SECONDS):
                    await self._pool.run(phase)
        self._pending -= self._found.keys() - busy
        self._open = self._found.keys() & busy
        await self._engine.retain_sessions(self._open)
        return self._found

    def is_unchanged(self, endpoint: EndpointId) -> bool:
        """Whether a compute that was not read in this round has counted nothing since its last reading."""
        return endpoint in self._last and endpoint not in self._pending

    def _find_busy(self, active: Sequence[Endpoint], seconds: Mapping[EndpointId, float]) -> set[EndpointId]:
        """Include the read replicas of busy branches, which replay what the branch writes."""
        branches = {each.branch_id for each in active if self._was_busy(each.id, seconds[each.id])}
        return {each.id for each in active if each.branch_id in branches}

    def _was_busy(self, endpoint: EndpointId, seconds: float) -> bool:
        last, before = self._last.get(endpoint), self._cpu_seconds.get(endpoint, seconds)
        if last is None or self._activity.was_used_since(endpoint, last.at):
            return True
        is_working = seconds - before >= BUSY_CPU_SECONDS or seconds - last.cpu_seconds >= UNREAD_CPU_SECONDS
        return is_working or seconds < last.cpu_seconds  # the compute was restarted

    def _choose(self, active: Sequence[Endpoint]) -> list[Endpoint]:
        """Return the computes with an open session, and of the others those that waited longest."""
        due = [each for each in active if each.id in self._pending and self._pool.can_inspect(each.id)]
        new = [each for each in due if each.id not in self._open]
        new.sort(key=lambda each: self._last[each.id].at if each.id in self._last else 0.0)
        new = interleave_by_project(new, lambda each: each.project_id)[:MAX_OPENED]
        return [each for each in due if each.id in self._open] + new

    async def _read(self, endpoint: Endpoint) -> bool:
        started_at = clock.monotonic()
        statistics = await self._engine.read_statistics(endpoint.id)
        if statistics is None:
            return False
        self._found[endpoint.id] = statistics
        self._last[endpoint.id] = _LastRead(started_at, self._cpu_seconds[endpoint.id])
        return True
