"""Enforces the storage limits of plans: measures the branches in use and restricts those above their limit.

A branch above its limit is read-only until it is below again; one far above it rejects all writes. The state is
stored, so that a larger plan takes effect at once, even while the compute is suspended. Also applies Postgres
settings that depend on the plan to running computes, for example after a claim.
"""

from bough import clock, log
from bough.config import Settings
from bough.control.gateway import notify
from bough.control.gateway.activity import EndpointActivity
from bough.control.gateway.allowances import AllowancePolicy
from bough.control.gateway.quotas import QuotaJudge
from bough.domain import allowance
from bough.domain.allowance import Fullness, classify_fullness
from bough.domain.endpoint import EndpointType
from bough.domain.locks import LockLevel, LockScope
from bough.domain.quota import WARNING_PERCENTS
from bough.engine.port import EngineInspection
from bough.errors import Busy
from bough.ids import BranchId, EndpointId
from bough.operations.action import NewOperation
from bough.operations.actions.apply_config import ApplyConfig
from bough.operations.queue import OperationQueue
from bough.postgres import storage
from bough.store.allowances import BranchStorage
from bough.store.store import Store
from bough.tasks.inspections import InspectedEndpoint, InspectionPool
from bough.tasks.round_robin import interleave_by_project

CONCURRENCY = 4
BATCH_SIZE = 50  # per run; each needs a session
MAX_GROWTH_PER_SECOND = 100 * 1024**2  # bytes; a branch far from its limit needs no frequent measurement
MAX_INTERVAL = 60.0  # seconds between measurements of a branch in use
IDLE_INTERVAL = 10.0  # seconds between measurements of a full, unused branch: its temporary files may disappear
RECONFIGURE_INTERVAL = 60.0  # seconds before settings are applied again
REQUEST_ID = "keep-storage"

logger = log.get_logger(component="tasks")


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
        judge: QuotaJudge,
    ) -> None:
        self._gateways = settings.gateway_folder
        self._store = store
        self._engine = engine
        self._queue = queue
        self._activity = activity
        self._allowances = allowances
        self._judge = judge
        self._warned: dict[BranchId, int] = {}  # the percentage of the quota that the owner was told of
        self._is_first_run = True  # after a restart it is unknown which endpoints were used
        self._next: dict[EndpointId, float] = {}  # when to measure again
        self._reconfigured_at: dict[EndpointId, float] = {}  # when settings were applied last
        self._measured: dict[EndpointId, float] = {}  # when measured last
        self._sent_hints: dict[EndpointId, tuple[object, ...]] = {}  # what the gateways' hints are based on
        self._inspections: InspectionPool[InspectedEndpoint] = InspectionPool(
            CONCURRENCY, self._measure, lambda each: activity.mark_unmeasured([each.id])
        )

    async def run(self) -> str:
        changed = await self._inspections.run_while_due(self._find_due, self.interval)
        changed += await self._update_full_branches()
        return f"changed the write access of {changed} branches" if changed else ""

    async def _update_full_branches(self) -> int:
        """Reclassify the full branches, suspended or not, by their last measurement."""
        async with self._store.read() as rows:
            full = await rows.allowances.list_full()
        changed = sum([await self._apply_limit(each, each.stored_bytes or 0) for each in full])
        if changed or full or self._sent_hints:
            await self._send_hints()
        return changed

    async def _find_due(self) -> list[InspectedEndpoint]:
        if self._inspections.has_running:  # do not wait for slow inspections
            await self._update_full_branches()
        async with self._store.read() as rows:
            full = {each.writer_id for each in await rows.allowances.list_full() if each.writer_id}
            if not (full or self._is_first_run or self._activity.has_unmeasured):
                return []  # no endpoint is in use
            active = await rows.endpoints.get_active_projects()
        used = set(active) if self._is_first_run else self._activity.take_unmeasured() & active.keys()
        now = clock.monotonic()
        used |= {each for each in active.keys() & full if self._is_stale(each, now)}
        due = [each for each in used if self._next.get(each, 0.0) <= now and self._inspections.can_inspect(each)]
        due = interleave_by_project(sorted(due, key=lambda each: self._next.get(each, 0.0)), active.__getitem__)[
            :BATCH_SIZE
        ]
        self._activity.mark_unmeasured(used.difference(due))
        self._is_first_run = False
        for times in (self._next, self._measured, self._reconfigured_at):
            for endpoint_id in times.keys() - active.keys():
                del times[endpoint_id]
        return [InspectedEndpoint(each, active[each]) for each in due]

    async def _measure(self, due: InspectedEndpoint) -> bool:
        endpoint_id = due.id
        async with self._store.read() as rows:
            endpoint = await rows.endpoints.get_live(endpoint_id)
        if endpoint is None or endpoint.type is not EndpointType.READ_WRITE:
            return False
        measured = await self._engine.measure_storage(endpoint.id)
        if measured is None:
            return False
        async with self._store.read() as rows:
            branch = await rows.allowances.get_by_branch(endpoint.branch_id)
        if branch is None:
            return False
        limit, is_quota = self._allowances.storage_limit(branch, branch.settings)
        if is_quota:
            await self._warn_of_quota(branch, measured.used_bytes * 100 // limit)
        seconds_to_limit = (limit - measured.used_bytes) / MAX_GROWTH_PER_SECOND
        now = self._measured[endpoint_id] = clock.monotonic()
        self._next[endpoint_id] = now + min(max(seconds_to_limit, 0.0), MAX_INTERVAL)
        if measured.is_busy:  # it may grow while its client sends nothing
            self._activity.mark_unmeasured([endpoint_id])
        if measured.temp_file_limit_bytes is None:  # an estimate, which cannot show that there is space again
            is_worse = allowance.is_worse(
                classify_fullness(branch.fullness, measured.used_bytes, limit), branch.fullness
            )
            return is_worse and await self._apply_limit(branch, measured.used_bytes)
        if await self._apply_limit(branch, measured.used_bytes):  # this applies the settings too
            return True
        if measured.temp_file_limit_bytes != storage.temp_file_bytes(limit):
            await self._reconfigure(branch, endpoint_id)
        return False

    def _is_stale(self, endpoint_id: EndpointId, now: float) -> bool:
        return now - self._measured.get(endpoint_id, now - IDLE_INTERVAL) >= IDLE_INTERVAL

    async def _reconfigure(self, branch: BranchStorage, endpoint_id: EndpointId) -> None:
        now = clock.monotonic()
        if self._reconfigured_at.get(endpoint_id, now - RECONFIGURE_INTERVAL) > now - RECONFIGURE_INTERVAL:
            return
        lock = LockScope(level=LockLevel.BRANCH, project_id=branch.project_id, branch_id=branch.branch_id)
        try:
            async with self._queue.locked_transaction(lock, can_wait=False) as rows:
                operation = NewOperation(ApplyConfig, branch.project_id, branch.branch_id, endpoint_id)
                await self._queue.enqueue(rows, [operation], request_id=REQUEST_ID)
        except Busy:
            self._activity.mark_unmeasured([endpoint_id])  # the next run tries again
            return
        self._reconfigured_at[endpoint_id] = now

    async def _apply_limit(self, branch: BranchStorage, stored: int) -> bool:
        """Reclassify the branch; return whether its write access changed."""
        limit, _ = self._allowances.storage_limit(branch, branch.settings)
        target = classify_fullness(branch.fullness, stored, limit)
        if target is branch.fullness:
            if target is not Fullness.BELOW_LIMIT and stored != branch.stored_bytes:
                async with self._store.transaction(durable=False) as rows:
                    await rows.allowances.set_fullness(branch.branch_id, target, stored)
            return False
        try:
            await self._change(branch, target, stored)
        except Busy:
            self._activity.mark_unmeasured([branch.writer_id] if branch.writer_id else [])  # the next run tries again
            return False
        logger.info("fullness_changed", branch_id=branch.branch_id, fullness=target, stored_bytes=stored)
        return True

    async def _change(self, branch: BranchStorage, target: Fullness, stored: int) -> None:
        await self._warn(branch, target)
        lock = LockScope(level=LockLevel.BRANCH, project_id=branch.project_id, branch_id=branch.branch_id)
        async with self._queue.locked_transaction(lock, can_wait=False) as rows:
            fresh = await rows.allowances.get_by_branch(branch.branch_id)
            if fresh is None:
                return
            await rows.allowances.set_fullness(branch.branch_id, target, stored)
            if fresh.writer_id is not None:
                operation = NewOperation(ApplyConfig, branch.project_id, branch.branch_id, fresh.writer_id)
                await self._queue.enqueue(rows, [operation], request_id=REQUEST_ID)
        if branch.writer_id is not None:
            self._activity.invalidate(branch.writer_id)

    async def _warn(self, branch: BranchStorage, target: Fullness) -> None:
        """Send the hint to the gateways before the first statement is rejected."""
        if branch.writer_id is None or target is Fullness.BELOW_LIMIT:
            return
        async with self._store.read() as rows:
            hint = await self._allowances.explain_storage_limit(rows, branch, target, branch.settings)
        await notify.send_hints(self._gateways, {branch.writer_id: hint})
        self._sent_hints[branch.writer_id] = self._hint_key(branch, target)

    async def _warn_of_quota(self, branch: BranchStorage, percent: int) -> None:
        """Warn the owner when more of the quota is used than before. What was told is stored, too."""
        passed = max((each for each in WARNING_PERCENTS if percent >= each), default=0)
        if passed > self._warned.get(branch.branch_id, 0):
            async with self._store.transaction() as rows:
                await self._judge.warn_of_size(rows, branch, passed, clock.now())
        self._warned[branch.branch_id] = passed

    async def _send_hints(self) -> None:
        """Update the gateways' hints for running endpoints."""
        hints: dict[EndpointId, str | None] = {}
        async with self._store.read() as rows:
            running = {each.writer_id: each for each in await rows.allowances.list_full() if each.writer_id}
            for endpoint_id, branch in running.items():
                if self._sent_hints.get(endpoint_id) != self._hint_key(branch, branch.fullness):
                    hints[endpoint_id] = await self._allowances.explain_storage_limit(
                        rows, branch, branch.fullness, branch.settings
                    )
        hints |= dict.fromkeys(self._sent_hints.keys() - running.keys(), None)
        if hints:
            await notify.send_hints(self._gateways, hints)
        self._sent_hints = {
            endpoint_id: self._hint_key(branch, branch.fullness) for endpoint_id, branch in running.items()
        }

    def _hint_key(self, branch: BranchStorage, target: Fullness) -> tuple[object, ...]:
        """Return the values that a hint depends on."""
        return target, branch.org_id, branch.plan, self._allowances.storage_limit(branch, branch.settings)
