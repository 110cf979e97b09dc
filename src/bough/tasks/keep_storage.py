"""Branches stay within the storage of their plan: those in use are measured, and their computes told when it is over.

One that has used it up is read-only until it has room again; one that is far over it cannot be written at all. How a
branch stood is kept, so that a larger plan helps it at once, also while it sleeps.
"""

import asyncio

from bough import clock, log
from bough.config import Settings
from bough.control import telling
from bough.control.activity import Activity
from bough.control.allowances import Allowances
from bough.domain.allowance import Fullness, fullness
from bough.domain.endpoint import Endpoint, EndpointType
from bough.domain.operation import OperationAction, Reach, Touch
from bough.engine.port import Engine, EngineError
from bough.errors import Busy
from bough.ids import EndpointId
from bough.operations.action import Wish
from bough.operations.queue import Queue
from bough.store.allowances import Stored
from bough.store.store import Store
from bough.tasks.fairness import in_turn
from bough.tasks.patience import Patience

AT_ONCE = 4
MOST = 50  # in one go: each is a session of its own
FASTEST = 100 * 1024**2  # bytes a second that a branch may grow by: far from its limit it is looked at seldom
LONGEST_PAUSE = 60.0  # seconds
REQUEST_ID = "keep-storage"

logger = log.get(room="tasks")


class KeepStorage:
    every = 2.0

    def __init__(
        self,
        settings: Settings,
        *,
        store: Store,
        engine: Engine,
        queue: Queue,
        activity: Activity,
        allowances: Allowances,
    ) -> None:
        self._gateways = settings.gateway_folder
        self._store = store
        self._engine = engine
        self._queue = queue
        self._activity = activity
        self._allowances = allowances
        self._is_new = True  # while we were away nobody told us which were in use
        self._next: dict[EndpointId, float] = {}  # when it is worth a look
        self._told: dict[EndpointId, tuple[object, ...]] = {}  # how they stood when gateways were told of it
        self._patience = Patience()

    async def run(self) -> str:
        changed = await self._measure_used()
        async with self._store.read() as rows:
            without_room = await rows.allowances.full()
        for held in without_room:
            changed += await self._judge(held, held.stored_bytes or 0)
        if changed or without_room or self._told:
            await self._tell()
        return f"changed what may be written in {changed} branches" if changed else ""

    async def _measure_used(self) -> int:
        async with self._store.read() as rows:
            active = await rows.endpoints.active_projects()
        used = set(active) if self._is_new else self._activity.take_unmeasured() & active.keys()
        now = clock.monotonic()
        due = [each for each in used if self._next.get(each, 0.0) <= now and self._patience.has(each)]
        due = in_turn(sorted(due, key=lambda each: self._next.get(each, 0.0)), active.__getitem__)[:MOST]
        self._activity.unmeasured(used.difference(due))
        self._is_new = False
        self._next = {each: at for each, at in self._next.items() if each in active}
        gate = asyncio.Semaphore(AT_ONCE)

        async def measure(endpoint_id: EndpointId) -> bool:
            async with gate:
                return await self._measure(endpoint_id)

        return sum(await asyncio.gather(*map(measure, due)))

    async def _measure(self, endpoint_id: EndpointId) -> bool:
        async with self._store.read() as rows:
            endpoint = await rows.endpoints.living(endpoint_id)
        if endpoint is None or endpoint.type is not EndpointType.READ_WRITE:
            return False
        stored = await self._stored(endpoint)
        if stored is None:
            return False
        async with self._store.read() as rows:
            held = await rows.allowances.of_branch(endpoint.branch_id)
        if held is None:
            return False
        left = (self._allowances.plan(held).storage_bytes - stored) / FASTEST
        self._next[endpoint_id] = clock.monotonic() + min(max(left, 0.0), LONGEST_PAUSE)
        return await self._judge(held, stored)

    async def _stored(self, endpoint: Endpoint) -> int | None:
        try:
            return await self._engine.stored(endpoint.id)
        except EngineError as error:
            logger.warning("storage_not_measured", endpoint_id=endpoint.id, reason=error.public)
            self._patience.lose(endpoint.id)
            self._activity.unmeasured([endpoint.id])
            return None

    async def _judge(self, held: Stored, stored: int) -> bool:
        """Whether the branch may write more, or less, than before."""
        target = fullness(held.fullness, stored, self._allowances.plan(held).storage_bytes)
        if target is held.fullness:
            if target is not Fullness.ROOM and stored != held.stored_bytes:
                async with self._store.transaction(lasting=False) as rows:
                    await rows.allowances.set_fullness(held.branch_id, target, stored)
            return False
        try:
            await self._change(held, target, stored)
        except Busy:
            self._activity.unmeasured([held.writer_id] if held.writer_id else [])  # the next beat tries again
            return False
        logger.info("fullness_changed", branch_id=held.branch_id, fullness=target, stored_bytes=stored)
        return True

    async def _change(self, held: Stored, target: Fullness, stored: int) -> None:
        await self._warn(held, target)
        touch = Touch(reach=Reach.BRANCH, project_id=held.project_id, branch_id=held.branch_id)
        async with self._queue.turn(touch, patient=False) as rows:
            fresh = await rows.allowances.of_branch(held.branch_id)
            if fresh is None:
                return
            await rows.allowances.set_fullness(held.branch_id, target, stored)
            if fresh.writer_id is not None:
                wish = Wish(OperationAction.APPLY_CONFIG, held.project_id, held.branch_id, fresh.writer_id)
                await self._queue.enqueue(rows, [wish], request_id=REQUEST_ID)
        if held.writer_id is not None:
            self._activity.changed(held.writer_id)

    async def _warn(self, held: Stored, target: Fullness) -> None:
        """Gateways know why, before anybody's statement is refused."""
        if held.writer_id is None or target is Fullness.ROOM:
            return
        async with self._store.read() as rows:
            hint = await self._allowances.hint(rows, held, target)
        await telling.hint(self._gateways, {held.writer_id: hint})
        self._told[held.writer_id] = _standing(held, target)

    async def _tell(self) -> None:
        """Gateways know how it is now, of those that run."""
        hints: dict[EndpointId, str | None] = {}
        async with self._store.read() as rows:
            running = {each.writer_id: each for each in await rows.allowances.full() if each.writer_id}
            for endpoint_id, held in running.items():
                if self._told.get(endpoint_id) != _standing(held, held.fullness):
                    hints[endpoint_id] = await self._allowances.hint(rows, held, held.fullness)
        hints |= dict.fromkeys(self._told.keys() - running.keys(), None)
        if hints:
            await telling.hint(self._gateways, hints)
        self._told = {endpoint_id: _standing(held, held.fullness) for endpoint_id, held in running.items()}


def _standing(held: Stored, target: Fullness) -> tuple[object, ...]:
    """What a hint depends on."""
    return target, held.org_id, held.plan
