"""Restarts read replicas that do not follow their primary, with a new copy if their own is unusable.

A lost connection is restored by Postgres itself, so a replica that only waits is left alone for a few inspections.
"""

from bough import clock, log
from bough.control.gateway.activity import EndpointActivity
from bough.domain.endpoint import Endpoint, EndpointState, request_state
from bough.engine.port import EngineInspection, ReplicaState
from bough.errors import Busy
from bough.ids import EndpointId
from bough.operations.action import NewOperation
from bough.operations.actions.start_compute import StartCompute
from bough.operations.actions.suspend_compute import SuspendCompute, SuspendComputeParams
from bough.operations.queue import OperationQueue
from bough.store.store import Store
from bough.tasks.inspection_schedule import InspectionSchedule
from bough.tasks.inspections import InspectionPool
from bough.tasks.round_robin import interleave_by_project

CONCURRENCY = 4
MAX_INTERVAL = 60.0  # seconds between inspections of a stable, unused replica
MAX_WAITING = 3  # waiting inspections in a row before a repair; repeated less and less often

logger = log.get_logger(component="tasks")


class RepairReplicas:
    interval = 5.0

    def __init__(
        self, store: Store, engine: EngineInspection, queue: OperationQueue, activity: EndpointActivity
    ) -> None:
        self._store = store
        self._engine = engine
        self._queue = queue
        self._waits: dict[EndpointId, int] = {}
        self._inspections: InspectionPool[Endpoint] = InspectionPool(CONCURRENCY, self._repair)
        self._schedule = InspectionSchedule(activity, interval=self.interval, max_interval=MAX_INTERVAL)

    async def run(self) -> str:
        async with self._store.read() as rows:
            active = await rows.endpoints.list_active_replicas()
        self._schedule.retain({each.id for each in active})
        replicas = [each for each in active if self._inspections.can_inspect(each.id)]
        due = [each for each in replicas if self._schedule.is_due(each.id)]
        repaired = await self._inspections.run(interleave_by_project(due, lambda each: each.project_id))
        self._waits = {each.id: self._waits[each.id] for each in replicas if each.id in self._waits}
        return f"repairing {repaired} read replicas that did not follow" if repaired else ""

    async def _repair(self, endpoint: Endpoint) -> bool:
        state = await self._engine.read_replica_state(endpoint.id)
        self._schedule.record(endpoint.id, is_idle=state is ReplicaState.FOLLOWING)
        if state is None or not self._is_due(endpoint.id, state):
            return False
        logger.info("replica_repair_started", endpoint_id=endpoint.id, state=state)
        if state is not ReplicaState.WAITING:
            self._inspections.back_off(endpoint.id)  # until the repair takes effect
        return await self._enqueue(endpoint, state)

    def _is_due(self, endpoint: EndpointId, state: ReplicaState) -> bool:
        waits = self._waits.pop(endpoint, 0) + 1
        if state is not ReplicaState.WAITING:
            return state is not ReplicaState.FOLLOWING
        self._waits[endpoint] = waits
        rounds, remainder = divmod(waits, MAX_WAITING)
        return remainder == 0 and rounds.bit_count() == 1  # after 3, 6, 12, 24 … inspections

    async def _enqueue(self, endpoint: Endpoint, state: ReplicaState) -> bool:
        start = NewOperation.for_endpoint(StartCompute, endpoint)
        discard = SuspendComputeParams(discards_copy=state is ReplicaState.LOST)
        stop = NewOperation.for_endpoint(SuspendCompute, endpoint, params=discard)
        try:
            async with self._queue.locked_transaction(start.lock, can_wait=False) as rows:
                fresh = await rows.endpoints.get_live(endpoint.id)
                if fresh is None or fresh.state is not EndpointState.ACTIVE:
                    return False
                if state is ReplicaState.WAITING:
                    await self._queue.enqueue(rows, [start], request_id="keep-replicas")
                    return True
                await rows.endpoints.save(request_state(fresh, EndpointState.IDLE, clock.now()))
                await self._queue.enqueue(rows, [stop, start], request_id="keep-replicas")
        except Busy:
            return False  # another operation is running; the next inspection tries again
        return True
