"""Enforces the quotas of projects and the transfer limits of plans.

When a limit is reached, computes are suspended and connections refused until the next month begins, or a claim, a
larger quota or a larger plan raises it. Projects that use something are judged every two seconds, all others with a
quota now and then.
"""

from collections.abc import Collection, Iterator
from typing import TypeVar

from bough import clock, log
from bough.config import Settings
from bough.control.gateway import notify
from bough.control.gateway.activity import EndpointActivity
from bough.control.gateway.quota_warnings import REQUEST_ID
from bough.control.gateway.quotas import QuotaJudge
from bough.domain.endpoint import EndpointState, request_state
from bough.errors import Busy
from bough.ids import EndpointId, ProjectId
from bough.operations.action import NewOperation
from bough.operations.actions.suspend_compute import SuspendCompute
from bough.operations.queue import OperationQueue
from bough.store.store import Store

BATCH_SIZE = 500
FULL_INTERVAL = 30.0  # seconds between two looks at all projects with a quota

T = TypeVar("T", bound=str)
logger = log.get_logger(component="tasks")


class EnforceQuotas:
    interval = 2.0

    def __init__(
        self, settings: Settings, *, store: Store, queue: OperationQueue, activity: EndpointActivity, judge: QuotaJudge
    ) -> None:
        self._gateways = settings.gateway_folder
        self._store = store
        self._queue = queue
        self._activity = activity
        self._judge = judge
        self._looked_at_all: float | None = None

    async def run(self) -> str:
        for due in _batches(await self._find_due()):
            await self._judge_projects(due)
        async with self._store.read() as rows:
            running = [each.id for each in await rows.project_limits.list_running()]
        count = sum([await self._suspend(endpoint_id) for endpoint_id in running])
        return f"suspending {count} computes of projects that have reached a limit" if count else ""

    async def _find_due(self) -> set[ProjectId]:
        async with self._store.read() as rows:
            due = {*await rows.project_limits.list_reached(), *await rows.project_limits.list_in_use_with_quota()}
            for served in _batches(self._activity.take_with_outgoing_traffic()):
                due |= await rows.allowances.list_projects_of(served)
        if self._looked_at_all is None or clock.monotonic() - self._looked_at_all >= FULL_INTERVAL:
            self._looked_at_all = clock.monotonic()
            async with self._store.read(slow=True) as rows:
                due.update(await rows.project_limits.list_with_quota())
        return due

    async def _judge_projects(self, project_ids: list[ProjectId]) -> None:
        now = clock.now()
        async with self._store.read() as rows:
            used = await rows.project_limits.list_used(project_ids, now)
        due = [each.project_id for each in used if self._judge.needs_change(each, now)]
        for project_id in due:
            async with self._store.transaction(durable=False) as rows:
                changed = await self._judge.judge(rows, [project_id], now)
                endpoints = [each.id for each in await rows.endpoints.list_in_project(project_id)]
            if changed:
                logger.info("quota_state_changed", project_id=project_id)
                for endpoint_id in endpoints:
                    self._activity.invalidate(endpoint_id)
                await notify.invalidate_endpoints(self._gateways, endpoints)

    async def _suspend(self, endpoint_id: EndpointId) -> bool:
        """Suspend the compute and close its connections."""
        async with self._store.read() as rows:
            endpoint = await rows.endpoints.get_live(endpoint_id)
        if endpoint is None:
            return False
        operation = NewOperation.for_endpoint(SuspendCompute, endpoint)
        try:
            async with self._queue.locked_transaction(operation.lock, can_wait=False) as rows:
                fresh = await rows.endpoints.get_live(endpoint_id)
                if fresh is None or fresh.state is not EndpointState.ACTIVE:
                    return False
                await rows.endpoints.save(request_state(fresh, EndpointState.IDLE, clock.now()))
                await self._queue.enqueue(rows, [operation], request_id=REQUEST_ID)
        except Busy:
            return False  # the next run tries again
        return True


def _batches(ids: Collection[T]) -> Iterator[list[T]]:
    """Split the ids into batches that fit into one query."""
    in_order = sorted(ids)
    for start in range(0, len(in_order), BATCH_SIZE):
        yield in_order[start : start + BATCH_SIZE]
