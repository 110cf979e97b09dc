"""Suspends computes without client activity for their timeout.

The gateways report when an endpoint was used last. The compute itself is asked before it is suspended, because a
long statement, an open transaction or a replication connection transfers no bytes.
"""

from datetime import datetime, timedelta

from bough import clock
from bough.config import Settings
from bough.control.gateway.activity import EndpointActivity
from bough.domain.endpoint import Endpoint, EndpointState, request_state
from bough.domain.project import MIN_SUSPEND_SECONDS, SUSPEND_DEFAULT
from bough.engine.port import ComputeEngine
from bough.errors import Busy
from bough.operations.action import NewOperation
from bough.operations.actions.suspend_compute import SuspendCompute, SuspendComputeParams
from bough.operations.queue import OperationQueue
from bough.store.store import Store
from bough.tasks.inspections import InspectionPool
from bough.tasks.round_robin import interleave_by_project

CONCURRENCY = 8
BATCH_SIZE = 64  # per run; the rest waits for a second


class SuspendIdle:
    interval = 1.0

    def __init__(
        self, settings: Settings, store: Store, engine: ComputeEngine, queue: OperationQueue, activity: EndpointActivity
    ) -> None:
        self._default_seconds = settings.suspend_timeout_default
        self._store = store
        self._engine = engine
        self._queue = queue
        self._activity = activity
        self._inspections: InspectionPool[Endpoint] = InspectionPool(CONCURRENCY, self._suspend)

    async def run(self) -> str:
        count = await self._inspections.run_while_due(self._find_due, self.interval)
        return f"suspending {count} idle computes" if count else ""

    async def _find_due(self) -> list[Endpoint]:
        now = clock.now()
        default, shortest = timedelta(seconds=self._default_seconds), timedelta(seconds=MIN_SUSPEND_SECONDS)
        self._activity.prune_requested(now - timedelta(days=8))  # longer than any timeout
        async with self._store.read() as rows:
            idle = await rows.endpoints.list_idle_since(now - default, now - shortest)
        due = [each for each in idle if self._is_due(each, now) and self._inspections.can_inspect(each.id)]
        return interleave_by_project(due, lambda each: each.project_id)[:BATCH_SIZE]

    def _is_due(self, endpoint: Endpoint, now: datetime) -> bool:
        seconds = endpoint.suspend_timeout_seconds
        timeout = timedelta(seconds=self._default_seconds if seconds == SUSPEND_DEFAULT else seconds)
        requested_at = self._activity.last_requested_at(endpoint.id)
        return now - max(endpoint.last_active or endpoint.created_at, requested_at) >= timeout

    async def _suspend(self, endpoint: Endpoint) -> bool:
        busy = await self._engine.is_busy(endpoint.id)
        if busy:
            async with self._store.transaction(durable=False) as rows:
                await rows.endpoints.record_activity(endpoint.id, clock.now())
            return False
        return await self._enqueue(endpoint)

    async def _enqueue(self, endpoint: Endpoint) -> bool:
        operation = NewOperation.for_endpoint(SuspendCompute, endpoint, params=SuspendComputeParams(only_if_idle=True))
        try:
            async with self._queue.locked_transaction(operation.lock, can_wait=False) as rows:
                now = clock.now()
                fresh = await rows.endpoints.get_live(endpoint.id)
                if fresh is None or fresh.state is not EndpointState.ACTIVE or not self._is_due(fresh, now):
                    return False
                await rows.endpoints.save(request_state(fresh, EndpointState.IDLE, now))
                await self._queue.enqueue(rows, [operation], request_id="suspend-idle")
        except Busy:
            return False  # another operation is running; the next run tries again
        return True
