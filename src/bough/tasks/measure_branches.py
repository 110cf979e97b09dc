"""What each compute that runs has used, how large its branch is, and how it is: measured, never guessed.

A measure is a session in the compute. One that nobody used and that took next to no processor time has nothing new to
tell, so it is measured rarely; its processor time is known from one look at all processes of the machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bough import clock
from bough.control.gateway.activity import EndpointActivity
from bough.control.platform.measurements import ComputeMeasurements
from bough.domain.endpoint import Endpoint
from bough.engine.port import ComputeUsage, EngineInspection
from bough.ids import EndpointId
from bough.operations import usage_measurement
from bough.store.store import Store
from bough.tasks.inspections import InspectionPool
from bough.tasks.round_robin import interleave_by_project

CONCURRENCY = 4
BATCH_SIZE = 200  # in one go: each is a session of its own
IDLE_INTERVAL = 1800.0  # seconds from one measure of a compute that does nothing to the next
BUSY_CPU_SECONDS = 0.1  # seconds of processor time: a subscription or a worker writes without a client


@dataclass(frozen=True, slots=True)
class _Measured:
    at: float
    cpu_seconds: float


class MeasureBranches:
    interval = 30.0

    def __init__(
        self, store: Store, engine: EngineInspection, measurements: ComputeMeasurements, activity: EndpointActivity
    ) -> None:
        self._store = store
        self._engine = engine
        self._measurements = measurements
        self._activity = activity
        self._measured: dict[EndpointId, _Measured] = {}
        self._usages: dict[EndpointId, ComputeUsage] = {}
        self._inspections: InspectionPool[Endpoint] = InspectionPool(CONCURRENCY, self._measure)

    async def run(self) -> str:
        async with self._store.read(slow=True) as rows:
            active = await rows.endpoints.list_active()
        taken = await self._engine.read_cpu_seconds()
        self._retain({endpoint.id for endpoint in active})
        due = [each for each in self._due(active, taken) if self._inspections.can_inspect(each.id)]
        for endpoint in due:
            self._measured[endpoint.id] = _Measured(clock.monotonic(), taken.get(endpoint.id, 0.0))
        await self._inspections.run(due)
        for endpoint_id in self._usages.keys() & taken.keys():
            usage = self._usages[endpoint_id]
            self._usages[endpoint_id] = replace(usage, cpu_seconds=max(usage.cpu_seconds, taken[endpoint_id]))
        self._measurements.replace_all(self._usages)
        return ""

    def _retain(self, active: set[EndpointId]) -> None:
        self._measured = {each: measured for each, measured in self._measured.items() if each in active}
        self._usages = {each: usage for each, usage in self._usages.items() if each in active}

    def _due(self, active: list[Endpoint], taken: Mapping[EndpointId, float]) -> list[Endpoint]:
        """Those that wait longest come first. A read replica that does nothing may lag behind a busy branch."""
        worked = {each.branch_id for each in active if self._was_busy(each.id, taken.get(each.id, 0.0))}
        due = [each for each in active if each.branch_id in worked or self._is_old(each.id)]
        due.sort(key=lambda each: self._measured[each.id].at if each.id in self._measured else 0.0)
        return interleave_by_project(due, lambda each: each.project_id)[:BATCH_SIZE]

    def _was_busy(self, endpoint_id: EndpointId, cpu_seconds: float) -> bool:
        before = self._measured.get(endpoint_id)
        if before is None or self._activity.was_used_since(endpoint_id, before.at):
            return True
        return not 0.0 <= cpu_seconds - before.cpu_seconds < BUSY_CPU_SECONDS

    def _is_old(self, endpoint_id: EndpointId) -> bool:
        before = self._measured.get(endpoint_id)
        return before is None or endpoint_id not in self._usages or clock.monotonic() - before.at >= IDLE_INTERVAL

    async def _measure(self, endpoint: Endpoint) -> bool:
        before = self._usages.pop(endpoint.id, None)
        usage = await self._engine.measure_usage(endpoint.id)
        if usage is None:
            return False
        self._usages[endpoint.id] = usage
        await self._note(endpoint, usage)
        if before is not None and before.logical_bytes != usage.logical_bytes:
            # It may have grown, or shrunk, without a client: a subscription writes, and so does autovacuum.
            self._activity.mark_unmeasured([endpoint.id])
        return True

    async def _note(self, endpoint: Endpoint, usage: ComputeUsage) -> None:
        async with self._store.read() as rows:
            if not await usage_measurement.has_new_usage(rows, endpoint, usage):
                return
        async with self._store.transaction(durable=False) as rows:
            await usage_measurement.record_usage(rows, endpoint, usage)
