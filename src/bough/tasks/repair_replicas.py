"""Running read replicas follow: one that cannot is started again, with another copy when its own is of no use.

A connection that was lost comes back by itself, so one that only waits is left alone for a few looks.
"""

from bough import clock, log
from bough.control.gateway.activity import EndpointActivity
from bough.domain.endpoint import Endpoint, EndpointState, request_state
from bough.engine.port import ComputeEngine, ReplicaState
from bough.errors import Busy
from bough.ids import EndpointId
from bough.operations.action import ActionType, NewOperation
from bough.operations.actions.start_compute import StartCompute, StartComputeParams
from bough.operations.actions.suspend_compute import SuspendCompute, SuspendComputeParams
from bough.operations.params import Params
from bough.operations.queue import OperationQueue
from bough.store.store import Store
from bough.tasks.inspection_schedule import InspectionSchedule
from bough.tasks.inspections import InspectionPool
from bough.tasks.round_robin import interleave_by_project

CONCURRENCY = 4
MAX_INTERVAL = 60.0  # seconds between two looks at a replica that has followed for long and that nobody uses
MAX_WAITING = 3  # looks in a row; then what it needs is made again where it reads from, and ever more rarely after that

logger = log.get_logger(component="tasks")


class RepairReplicas:
    interval = 5.0

    def __init__(self, store: Store, engine: ComputeEngine, queue: OperationQueue, activity: EndpointActivity) -> None:
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
        nudged = await self._inspections.run(interleave_by_project(due, lambda each: each.project_id))
        self._waits = {each.id: self._waits[each.id] for each in replicas if each.id in self._waits}
        return f"nudged {nudged} read replicas that did not follow" if nudged else ""

    async def _repair(self, endpoint: Endpoint) -> bool:
        following = await self._engine.read_replica_state(endpoint.id)
        self._schedule.record(endpoint.id, is_idle=following is ReplicaState.FOLLOWING)
        if following is None or not self._is_due(endpoint.id, following):
            return False
        logger.info("replica_nudged", endpoint_id=endpoint.id, following=following)
        if following is not ReplicaState.WAITING:
            self._inspections.back_off(endpoint.id)  # until it shows what came of it
        return await self._enqueue(endpoint, following)

    def _is_due(self, endpoint: EndpointId, following: ReplicaState) -> bool:
        waits = self._waits.pop(endpoint, 0) + 1
        if following is not ReplicaState.WAITING:
            return following is not ReplicaState.FOLLOWING
        self._waits[endpoint] = waits
        rounds, rest = divmod(waits, MAX_WAITING)
        return rest == 0 and rounds.bit_count() == 1  # after 3, 6, 12, 24 … looks

    async def _enqueue(self, endpoint: Endpoint, following: ReplicaState) -> bool:
        start = _new_operation(StartCompute, endpoint, StartComputeParams())
        stop = _new_operation(
            SuspendCompute, endpoint, SuspendComputeParams(discards_copy=following is ReplicaState.LOST)
        )
        try:
            async with self._queue.locked_transaction(start.lock, can_wait=False) as rows:
                fresh = await rows.endpoints.get_live(endpoint.id)
                if fresh is None or fresh.state is not EndpointState.ACTIVE:
                    return False
                if following is ReplicaState.WAITING:
                    await self._queue.enqueue(rows, [start], request_id="keep-replicas")
                    return True
                await rows.endpoints.save(request_state(fresh, EndpointState.IDLE, clock.now()))
                await self._queue.enqueue(rows, [stop, start], request_id="keep-replicas")
        except Busy:
            return False  # somebody works on it; it is looked at again
        return True


def _new_operation(action: ActionType, endpoint: Endpoint, params: Params) -> NewOperation:
    return NewOperation(action, endpoint.project_id, endpoint.branch_id, endpoint.id, params)
