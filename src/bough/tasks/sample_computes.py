"""Samples running computes and the machine every 15 seconds of the wall clock, for the metrics over time.

A sample contains what happened since the previous one. It is written together with the counters that the next one
counts from, so that a crash neither loses nor repeats anything. A compute that does not run has no sample.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from bough import clock
from bough.control.gateway.activity import EndpointActivity
from bough.control.platform.measurements import ComputeMeasurements
from bough.domain.endpoint import Endpoint
from bough.domain.metrics.compute_values import connection_values
from bough.domain.metrics.fields import COMPUTE_FIELDS, MACHINE_FIELDS, MACHINE_SERIES
from bough.domain.metrics.points import Point, make_point
from bough.domain.metrics.tiers import SAMPLE_SECONDS, align
from bough.engine.port import ProcessSample, SamplingEngine
from bough.ids import EndpointId
from bough.store.metrics import SampleRow, encode_samples, shard_of
from bough.store.store import Store
from bough.tasks.compute_counters import ComputeCounters, ReplicaLags
from bough.tasks.cpu_times import CpuTimes
from bough.tasks.statistics_reads import StatisticsReads

_EARLY_SECONDS = 0.5  # a timer may end a little too soon


class SampleComputes:
    def __init__(
        self, store: Store, engine: SamplingEngine, activity: EndpointActivity, measurements: ComputeMeasurements
    ) -> None:
        self._store = store
        self._engine = engine
        self._activity = activity
        self._measurements = measurements
        self._reads = StatisticsReads(engine, activity)
        self._counters = ComputeCounters()
        self._lags = ReplicaLags()
        self._cpu_times = CpuTimes()

    @property
    def interval(self) -> float:
        """The time until the next multiple of 15 seconds, also after the clock was set."""
        return SAMPLE_SECONDS - clock.now().timestamp() % SAMPLE_SECONDS

    async def run(self) -> str:
        at = align(clock.now().timestamp() + _EARLY_SECONDS, SAMPLE_SECONDS) - SAMPLE_SECONDS
        async with self._store.read(slow=True) as rows:
            endpoints = await rows.endpoints.list_active()
        processes = await self._engine.sample_processes()
        active = [each for each in endpoints if each.id in processes]
        points = await self._sample_computes(active, processes)
        points[MACHINE_SERIES] = await self._sample_machine(len(active))
        await self._write(await asyncio.to_thread(encode_samples, at, points), points, active)
        return ""

    async def _sample_computes(
        self, active: Sequence[Endpoint], processes: Mapping[EndpointId, ProcessSample]
    ) -> dict[str, Point]:
        found = await self._reads.run(active, processes)
        await self._counters.record(self._store, found)
        self._lags.record(active, found)
        connections, pools = self._activity.connections, self._activity.pools
        points: dict[str, Point] = {}
        for each in active:
            values = connection_values(connections.get(each.id, 0), pools.get(each.id))
            points[each.id] = make_point(COMPUTE_FIELDS, values | self._measure(each.id, processes[each.id]))
        return points

    def _measure(self, endpoint: EndpointId, process: ProcessSample) -> dict[str, float]:
        usage = self._measurements.get(endpoint)
        return {
            **self._cpu_times.measure(endpoint, process.run, process.cpu_seconds),
            "memory_bytes": process.memory_bytes,
            **self._counters.count(endpoint, is_unchanged=self._reads.is_unchanged(endpoint)),
            **({} if usage is None else {"storage_bytes": usage.logical_bytes}),
            **self._lags.get(endpoint),
        }

    async def _sample_machine(self, computes: int) -> Point:
        machine = await self._engine.sample_machine()
        values = {
            **self._cpu_times.measure(MACHINE_SERIES, "", machine.cpu_seconds),
            "cpu_cores_total": machine.cpu_cores,
            "load_average": machine.load_average,
            "memory_used_bytes": machine.memory_used_bytes,
            "memory_total_bytes": machine.memory_total_bytes,
            "disk_used_bytes": machine.disk_used_bytes,
            "disk_total_bytes": machine.disk_total_bytes,
            "computes_running": computes,
        }
        return make_point(MACHINE_FIELDS, values)

    async def _write(self, samples: Sequence[SampleRow], series: Iterable[str], active: Sequence[Endpoint]) -> None:
        """Write the samples of shards that have none of this moment.

        If the clock was set back, the others wait, and the first sample after that contains what happened meanwhile.
        """
        if not samples:
            return
        async with self._store.transaction(durable=False) as rows:
            taken = await rows.metrics.list_sampled_shards(samples[0].at)
            stored = {each for each in series if shard_of(each) not in taken}
            await rows.metrics.add_samples([each for each in samples if each.shard not in taken])
            await self._counters.save(rows, stored)
        self._cpu_times.commit(stored)
        self._counters.commit(stored, {each.id for each in active})
