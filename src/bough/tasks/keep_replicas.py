"""Running read replicas follow: one that cannot is started again, with another copy when its own is of no use.

A connection that was lost comes back by itself, so one that only waits is left alone for a few looks.
"""

from bough import clock, log
from bough.control.activity import Activity
from bough.domain.endpoint import Endpoint, EndpointState, wishing
from bough.domain.operation import OperationAction
from bough.engine.port import Engine, Following
from bough.errors import Busy
from bough.ids import EndpointId
from bough.operations.action import Wish
from bough.operations.actions.suspend_compute import AFRESH
from bough.operations.queue import Queue
from bough.store.store import Store
from bough.tasks.fairness import in_turn
from bough.tasks.look_schedule import LookSchedule
from bough.tasks.looks import Looks

AT_ONCE = 4
LONGEST_PAUSE = 60.0  # seconds between two looks at a replica that has followed for long and that nobody uses
WAITS = 3  # looks in a row; then what it needs is made again where it reads from, and ever more rarely after that

logger = log.get(room="tasks")


class KeepReplicas:
    every = 5.0

    def __init__(self, store: Store, engine: Engine, queue: Queue, activity: Activity) -> None:
        self._store = store
        self._engine = engine
        self._queue = queue
        self._waits: dict[EndpointId, int] = {}
        self._looks: Looks[Endpoint] = Looks(AT_ONCE, self._keep)
        self._schedule = LookSchedule(activity, every=self.every, longest=LONGEST_PAUSE)

    async def run(self) -> str:
        async with self._store.read() as rows:
            active = await rows.endpoints.active_replicas()
        self._schedule.retain({each.id for each in active})
        replicas = [each for each in active if self._looks.may_look(each.id)]
        due = [each for each in replicas if self._schedule.is_due(each.id)]
        nudged = await self._looks.at(in_turn(due, lambda each: each.project_id))
        self._waits = {each.id: self._waits[each.id] for each in replicas if each.id in self._waits}
        return f"nudged {nudged} read replicas that did not follow" if nudged else ""

    async def _keep(self, endpoint: Endpoint) -> bool:
        following = await self._engine.following(endpoint.id)
        self._schedule.note(endpoint.id, is_quiet=following is Following.FOLLOWS)
        if following is None or not self._is_due(endpoint.id, following):
            return False
        logger.info("replica_nudged", endpoint_id=endpoint.id, following=following)
        if following is not Following.WAITS:
            self._looks.leave_alone(endpoint.id)  # until it shows what came of it
        return await self._enqueue(endpoint, following)

    def _is_due(self, endpoint: EndpointId, following: Following) -> bool:
        waits = self._waits.pop(endpoint, 0) + 1
        if following is not Following.WAITS:
            return following is not Following.FOLLOWS
        self._waits[endpoint] = waits
        rounds, rest = divmod(waits, WAITS)
        return rest == 0 and rounds.bit_count() == 1  # after 3, 6, 12, 24 … looks

    async def _enqueue(self, endpoint: Endpoint, following: Following) -> bool:
        start = _wish(OperationAction.START_COMPUTE, endpoint)
        stop = _wish(OperationAction.SUSPEND_COMPUTE, endpoint, afresh=following is Following.LOST)
        try:
            async with self._queue.turn(start.touch, patient=False) as rows:
                fresh = await rows.endpoints.living(endpoint.id)
                if fresh is None or fresh.state is not EndpointState.ACTIVE:
                    return False
                if following is Following.WAITS:
                    await self._queue.enqueue(rows, [start], request_id="keep-replicas")
                    return True
                await rows.endpoints.save(wishing(fresh, EndpointState.IDLE, clock.now()))
                await self._queue.enqueue(rows, [stop, start], request_id="keep-replicas")
        except Busy:
            return False  # somebody works on it; it is looked at again
        return True


def _wish(action: OperationAction, endpoint: Endpoint, *, afresh: bool = False) -> Wish:
    parameters = {AFRESH: True} if afresh else {}
    return Wish(action, endpoint.project_id, endpoint.branch_id, endpoint.id, parameters)
