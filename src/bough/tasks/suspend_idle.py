"""Computes without a client's activity for their timeout are put to sleep.

Reports of the gateways say when an endpoint was in use last. Before it is stopped the compute itself is
asked: a statement that runs long, an open transaction and a replication connection move no bytes.
"""

from datetime import datetime, timedelta

from bough import clock
from bough.config import Settings
from bough.control.activity import Activity
from bough.domain.endpoint import Endpoint, EndpointState, wishing
from bough.domain.operation import OperationAction
from bough.domain.project import SUSPEND_DEFAULT, SUSPEND_SHORTEST
from bough.engine.port import Engine
from bough.errors import Busy
from bough.operations.action import Wish
from bough.operations.actions.suspend_compute import WHEN_QUIET
from bough.operations.queue import Queue
from bough.store.store import Store
from bough.tasks.fairness import in_turn
from bough.tasks.looks import Looks

AT_ONCE = 8
MOST = 64  # in one go; the rest waits a second


class SuspendIdle:
    every = 1.0

    def __init__(self, settings: Settings, store: Store, engine: Engine, queue: Queue, activity: Activity) -> None:
        self._default = settings.suspend_timeout_default
        self._store = store
        self._engine = engine
        self._queue = queue
        self._activity = activity
        self._looks: Looks[Endpoint] = Looks(AT_ONCE, self._suspend)

    async def run(self) -> str:
        count = await self._looks.while_due(self._due, self.every)
        return f"suspending {count} idle computes" if count else ""

    async def _due(self) -> list[Endpoint]:
        now = clock.now()
        default, shortest = timedelta(seconds=self._default), timedelta(seconds=SUSPEND_SHORTEST)
        self._activity.forget_wanted(now - timedelta(days=8))  # no timeout is longer
        async with self._store.read() as rows:
            quiet = await rows.endpoints.quiet_since(now - default, now - shortest)
        due = [each for each in quiet if self._is_due(each, now) and self._looks.may_look(each.id)]
        return in_turn(due, lambda each: each.project_id)[:MOST]

    def _is_due(self, endpoint: Endpoint, now: datetime) -> bool:
        seconds = endpoint.suspend_timeout_seconds
        timeout = timedelta(seconds=self._default if seconds == SUSPEND_DEFAULT else seconds)
        wanted = self._activity.last_wanted(endpoint.id)
        return now - max(endpoint.last_active or endpoint.created_at, wanted) >= timeout

    async def _suspend(self, endpoint: Endpoint) -> bool:
        busy = await self._engine.is_busy(endpoint.id)
        if busy:
            async with self._store.transaction(lasting=False) as rows:
                await rows.endpoints.touch(endpoint.id, clock.now())
            return False
        return await self._enqueue(endpoint)

    async def _enqueue(self, endpoint: Endpoint) -> bool:
        wish = Wish(
            OperationAction.SUSPEND_COMPUTE,
            endpoint.project_id,
            endpoint.branch_id,
            endpoint.id,
            parameters={WHEN_QUIET: True},
        )
        try:
            async with self._queue.turn(wish.touch, patient=False) as rows:
                now = clock.now()
                fresh = await rows.endpoints.living(endpoint.id)
                if fresh is None or fresh.state is not EndpointState.ACTIVE or not self._is_due(fresh, now):
                    return False
                await rows.endpoints.save(wishing(fresh, EndpointState.IDLE, now))
                await self._queue.enqueue(rows, [wish], request_id="suspend-idle")
        except Busy:
            return False  # somebody works on it; the next beat looks again
        return True
