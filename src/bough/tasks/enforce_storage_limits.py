"""Branches stay within the storage of their plan: those in use are measured, and their computes told when it is over.

One that has used it up is read-only until it has room again; one that is far over it cannot be written at all. How a
branch stood is kept, so that a larger plan helps it at once, also while it sleeps. Settings that follow from the plan
are brought to computes that run with others, as after a claim.
"""

from dataclasses import dataclass

from bough import clock, log
from bough.config import Settings
from bough.control.gateway import notify
from bough.control.gateway.activity import EndpointActivity
from bough.control.gateway.allowances import AllowancePolicy
from bough.domain import allowance
from bough.domain.allowance import Fullness, classify_fullness
from bough.domain.endpoint import EndpointType
from bough.domain.locks import LockLevel, LockScope
from bough.engine.port import EngineInspection
from bough.errors import Busy
from bough.ids import EndpointId, ProjectId
from bough.operations.action import NewOperation
from bough.operations.actions.apply_config import ApplyConfig
from bough.operations.queue import OperationQueue
from bough.postgres import storage
from bough.store.allowances import BranchStorage
from bough.store.store import Store
from bough.tasks.inspections import InspectionPool
from bough.tasks.round_robin import interleave_by_project

CONCURRENCY = 4
BATCH_SIZE = 50  # in one go: each is a session of its own
MAX_GROWTH_PER_SECOND = (
    100 * 1024**2
)  # bytes a second that a branch may grow by: far from its limit it is looked at seldom
MAX_INTERVAL = 60.0  # seconds
IDLE_INTERVAL = 10.0  # seconds between looks at a full one that nobody uses: temporary files go with their sessions
RECONFIGURE_INTERVAL = 60.0  # seconds after settings were brought, before they are brought again
REQUEST_ID = "keep-storage"

logger = log.get_logger(component="tasks")


@dataclass(frozen=True, slots=True)
class _UnmeasuredEndpoint:
    id: EndpointId
    project_id: ProjectId


class EnforceStorageLimits:
    interval = 2.0

    def __init__(
        self,
        settings: Settings,
        *,
        store: Store,
        engine: EngineInspection,
        queue: OperationQueue,
        activity: EndpointActivity,
        allowances: AllowancePolicy,
    ) -> None:
        self._gateways = settings.gateway_folder
        self._store = store
        self._engine = engine
        self._queue = queue
        self._activity = activity
        self._allowances = allowances
        self._is_new = True  # while we were away nobody told us which were in use
        self._next: dict[EndpointId, float] = {}  # when it is worth a look
        self._reconfigured_at: dict[EndpointId, float] = {}  # when settings were brought to it
        self._measured: dict[EndpointId, float] = {}  # when it was looked at last
        self._sent_hints: dict[EndpointId, tuple[object, ...]] = {}  # how they stood when gateways were told of it
        self._inspections: InspectionPool[_UnmeasuredEndpoint] = InspectionPool(
            CONCURRENCY, self._measure, lambda each: activity.mark_unmeasured([each.id])
        )

    async def run(self) -> str:
        changed = await self._inspections.run_while_due(self._due, self.interval)
        changed += await self._keep_full()
        return f"changed what may be written in {changed} branches" if changed else ""

    async def _keep_full(self) -> int:
        """Those without room, asleep or not, by what was measured of them last."""
        async with self._store.read() as rows:
            without_room = await rows.allowances.list_full()
        changed = sum([await self._apply_limit(held, held.stored_bytes or 0) for held in without_room])
        if changed or without_room or self._sent_hints:
            await self._send_hints()
        return changed

    async def _due(self) -> list[_UnmeasuredEndpoint]:
        if self._inspections.has_running:  # one takes long: what follows the looks does not wait for it
            await self._keep_full()
        async with self._store.read() as rows:
            full = {held.writer_id for held in await rows.allowances.list_full() if held.writer_id}
            if not (full or self._is_new or self._activity.has_unmeasured):
                return []  # nobody uses anything, however many run
            active = await rows.endpoints.get_active_projects()
        used = set(active) if self._is_new else self._activity.take_unmeasured() & active.keys()
        now = clock.monotonic()
        used |= {each for each in active.keys() & full if self._is_stale(each, now)}
        due = [each for each in used if self._next.get(each, 0.0) <= now and self._inspections.can_inspect(each)]
        due = interleave_by_project(sorted(due, key=lambda each: self._next.get(each, 0.0)), active.__getitem__)[
            :BATCH_SIZE
        ]
        self._activity.mark_unmeasured(used.difference(due))
        self._is_new = False
        for moments in (self._next, self._measured, self._reconfigured_at):
            for gone in moments.keys() - active.keys():
                del moments[gone]
        return [_UnmeasuredEndpoint(each, active[each]) for each in due]

    async def _measure(self, due: _UnmeasuredEndpoint) -> bool:
        endpoint_id = due.id
        async with self._store.read() as rows:
            endpoint = await rows.endpoints.get_live(endpoint_id)
        if endpoint is None or endpoint.type is not EndpointType.READ_WRITE:
            return False
        found = await self._engine.measure_storage(endpoint.id)
        if found is None:
            return False
        async with self._store.read() as rows:
            held = await rows.allowances.get_by_branch(endpoint.branch_id)
        if held is None:
            return False
        limit = self._allowances.plan_for(held).storage_bytes
        left = (limit - found.used_bytes) / MAX_GROWTH_PER_SECOND
        now = self._measured[endpoint_id] = clock.monotonic()
        self._next[endpoint_id] = now + min(max(left, 0.0), MAX_INTERVAL)
        if found.is_busy:  # it may grow although its client says nothing meanwhile
            self._activity.mark_unmeasured([endpoint_id])
        if found.temp_file_limit_bytes is None:  # what is counted roughly never says that there is room again
            is_worse = allowance.is_worse(classify_fullness(held.fullness, found.used_bytes, limit), held.fullness)
            return is_worse and await self._apply_limit(held, found.used_bytes)
        if await self._apply_limit(held, found.used_bytes):  # which brings settings too
            return True
        if found.temp_file_limit_bytes != storage.temp_file_bytes(limit):
            await self._reconfigure(held, endpoint_id)
        return False

    def _is_stale(self, endpoint_id: EndpointId, now: float) -> bool:
        return now - self._measured.get(endpoint_id, now - IDLE_INTERVAL) >= IDLE_INTERVAL

    async def _reconfigure(self, held: BranchStorage, endpoint_id: EndpointId) -> None:
        now = clock.monotonic()
        if self._reconfigured_at.get(endpoint_id, now - RECONFIGURE_INTERVAL) > now - RECONFIGURE_INTERVAL:
            return
        touch = LockScope(level=LockLevel.BRANCH, project_id=held.project_id, branch_id=held.branch_id)
        try:
            async with self._queue.locked_transaction(touch, can_wait=False) as rows:
                wish = NewOperation(ApplyConfig, held.project_id, held.branch_id, endpoint_id)
                await self._queue.enqueue(rows, [wish], request_id=REQUEST_ID)
        except Busy:
            self._activity.mark_unmeasured([endpoint_id])  # the next beat tries again
            return
        self._reconfigured_at[endpoint_id] = now

    async def _apply_limit(self, held: BranchStorage, stored: int) -> bool:
        """Whether the branch may write more, or less, than before."""
        target = classify_fullness(held.fullness, stored, self._allowances.plan_for(held).storage_bytes)
        if target is held.fullness:
            if target is not Fullness.BELOW_LIMIT and stored != held.stored_bytes:
                async with self._store.transaction(durable=False) as rows:
                    await rows.allowances.set_fullness(held.branch_id, target, stored)
            return False
        try:
            await self._change(held, target, stored)
        except Busy:
            self._activity.mark_unmeasured([held.writer_id] if held.writer_id else [])  # the next beat tries again
            return False
        logger.info("fullness_changed", branch_id=held.branch_id, fullness=target, stored_bytes=stored)
        return True

    async def _change(self, held: BranchStorage, target: Fullness, stored: int) -> None:
        await self._warn(held, target)
        touch = LockScope(level=LockLevel.BRANCH, project_id=held.project_id, branch_id=held.branch_id)
        async with self._queue.locked_transaction(touch, can_wait=False) as rows:
            fresh = await rows.allowances.get_by_branch(held.branch_id)
            if fresh is None:
                return
            await rows.allowances.set_fullness(held.branch_id, target, stored)
            if fresh.writer_id is not None:
                wish = NewOperation(ApplyConfig, held.project_id, held.branch_id, fresh.writer_id)
                await self._queue.enqueue(rows, [wish], request_id=REQUEST_ID)
        if held.writer_id is not None:
            self._activity.invalidate(held.writer_id)

    async def _warn(self, held: BranchStorage, target: Fullness) -> None:
        """Gateways know why, before anybody's statement is refused."""
        if held.writer_id is None or target is Fullness.BELOW_LIMIT:
            return
        async with self._store.read() as rows:
            hint = await self._allowances.explain_storage_limit(rows, held, target)
        await notify.send_hints(self._gateways, {held.writer_id: hint})
        self._sent_hints[held.writer_id] = _hint_key(held, target)

    async def _send_hints(self) -> None:
        """Gateways know how it is now, of those that run."""
        hints: dict[EndpointId, str | None] = {}
        async with self._store.read() as rows:
            running = {each.writer_id: each for each in await rows.allowances.list_full() if each.writer_id}
            for endpoint_id, held in running.items():
                if self._sent_hints.get(endpoint_id) != _hint_key(held, held.fullness):
                    hints[endpoint_id] = await self._allowances.explain_storage_limit(rows, held, held.fullness)
        hints |= dict.fromkeys(self._sent_hints.keys() - running.keys(), None)
        if hints:
            await notify.send_hints(self._gateways, hints)
        self._sent_hints = {endpoint_id: _hint_key(held, held.fullness) for endpoint_id, held in running.items()}


def _hint_key(held: BranchStorage, target: Fullness) -> tuple[object, ...]:
    """What a hint depends on."""
    return target, held.org_id, held.plan
