"""Branches stay within the storage of their plan: those in use are measured, and their computes told when it is over.

One that has used it up is read-only until it has room again; one that is far over it cannot be written at all. How a
branch stood is kept, so that a larger plan helps it at once, also while it sleeps. Settings that follow from the plan
are brought to computes that run with others, as after a claim.
"""

from dataclasses import dataclass

from bough import clock, log
from bough.config import Settings
from bough.control import telling
from bough.control.activity import Activity
from bough.control.allowances import Allowances
from bough.domain import allowance
from bough.domain.allowance import Fullness, fullness
from bough.domain.endpoint import EndpointType
from bough.domain.operation import OperationAction, Reach, Touch
from bough.engine.port import Engine
from bough.errors import Busy
from bough.ids import EndpointId, ProjectId
from bough.operations.action import Wish
from bough.operations.queue import Queue
from bough.postgres import storage
from bough.store.allowances import Stored
from bough.store.store import Store
from bough.tasks.fairness import in_turn
from bough.tasks.looks import Looks

AT_ONCE = 4
MOST = 50  # in one go: each is a session of its own
FASTEST = 100 * 1024**2  # bytes a second that a branch may grow by: far from its limit it is looked at seldom
LONGEST_PAUSE = 60.0  # seconds
QUIET_PAUSE = 10.0  # seconds between looks at a full one that nobody uses: temporary files go with their sessions
SETTINGS_PAUSE = 60.0  # seconds after settings were brought, before they are brought again
REQUEST_ID = "keep-storage"

logger = log.get(room="tasks")


@dataclass(frozen=True, slots=True)
class _Due:
    id: EndpointId
    project_id: ProjectId


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
        self._brought: dict[EndpointId, float] = {}  # when settings were brought to it
        self._measured: dict[EndpointId, float] = {}  # when it was looked at last
        self._told: dict[EndpointId, tuple[object, ...]] = {}  # how they stood when gateways were told of it
        self._looks: Looks[_Due] = Looks(AT_ONCE, self._measure, lambda each: activity.unmeasured([each.id]))

    async def run(self) -> str:
        changed = await self._looks.while_due(self._due, self.every)
        changed += await self._keep_full()
        return f"changed what may be written in {changed} branches" if changed else ""

    async def _keep_full(self) -> int:
        """Those without room, asleep or not, by what was measured of them last."""
        async with self._store.read() as rows:
            without_room = await rows.allowances.full()
        changed = sum([await self._judge(held, held.stored_bytes or 0) for held in without_room])
        if changed or without_room or self._told:
            await self._tell()
        return changed

    async def _due(self) -> list[_Due]:
        if self._looks.are_under_way:  # one takes long: what follows the looks does not wait for it
            await self._keep_full()
        async with self._store.read() as rows:
            full = {held.writer_id for held in await rows.allowances.full() if held.writer_id}
            if not (full or self._is_new or self._activity.has_unmeasured):
                return []  # nobody uses anything, however many run
            active = await rows.endpoints.active_projects()
        used = set(active) if self._is_new else self._activity.take_unmeasured() & active.keys()
        now = clock.monotonic()
        used |= {each for each in active.keys() & full if self._is_stale(each, now)}
        due = [each for each in used if self._next.get(each, 0.0) <= now and self._looks.may_look(each)]
        due = in_turn(sorted(due, key=lambda each: self._next.get(each, 0.0)), active.__getitem__)[:MOST]
        self._activity.unmeasured(used.difference(due))
        self._is_new = False
        for moments in (self._next, self._measured, self._brought):
            for gone in moments.keys() - active.keys():
                del moments[gone]
        return [_Due(each, active[each]) for each in due]

    async def _measure(self, due: _Due) -> bool:
        endpoint_id = due.id
        async with self._store.read() as rows:
            endpoint = await rows.endpoints.living(endpoint_id)
        if endpoint is None or endpoint.type is not EndpointType.READ_WRITE:
            return False
        found = await self._engine.stored(endpoint.id)
        if found is None:
            return False
        async with self._store.read() as rows:
            held = await rows.allowances.of_branch(endpoint.branch_id)
        if held is None:
            return False
        limit = self._allowances.plan(held).storage_bytes
        left = (limit - found.bytes) / FASTEST
        now = self._measured[endpoint_id] = clock.monotonic()
        self._next[endpoint_id] = now + min(max(left, 0.0), LONGEST_PAUSE)
        if found.is_busy:  # it may grow although its client says nothing meanwhile
            self._activity.unmeasured([endpoint_id])
        if found.temp_file_bytes is None:  # what is counted roughly never says that there is room again
            is_worse = allowance.is_worse(fullness(held.fullness, found.bytes, limit), held.fullness)
            return is_worse and await self._judge(held, found.bytes)
        if await self._judge(held, found.bytes):  # which brings settings too
            return True
        if found.temp_file_bytes != storage.temp_file_bytes(limit):
            await self._bring_settings(held, endpoint_id)
        return False

    def _is_stale(self, endpoint_id: EndpointId, now: float) -> bool:
        return now - self._measured.get(endpoint_id, now - QUIET_PAUSE) >= QUIET_PAUSE

    async def _bring_settings(self, held: Stored, endpoint_id: EndpointId) -> None:
        now = clock.monotonic()
        if self._brought.get(endpoint_id, now - SETTINGS_PAUSE) > now - SETTINGS_PAUSE:
            return
        touch = Touch(reach=Reach.BRANCH, project_id=held.project_id, branch_id=held.branch_id)
        try:
            async with self._queue.turn(touch, patient=False) as rows:
                wish = Wish(OperationAction.APPLY_CONFIG, held.project_id, held.branch_id, endpoint_id)
                await self._queue.enqueue(rows, [wish], request_id=REQUEST_ID)
        except Busy:
            self._activity.unmeasured([endpoint_id])  # the next beat tries again
            return
        self._brought[endpoint_id] = now

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
