"""Enforces the transfer limits of plans: per month, or for the whole lifetime of an unclaimed project.

Counts the traffic as it is reported to users. At the limit, computes are suspended and connections refused until the
next month, a claim or a larger plan raises it.
"""

from collections.abc import Collection, Iterator
from typing import TypeVar

from bough import clock, log
from bough.config import Settings
from bough.control.gateway import notify
from bough.control.gateway.activity import EndpointActivity
from bough.control.gateway.allowances import AllowancePolicy, is_unclaimed
from bough.domain import allowance
from bough.domain.calendar_month import start_of_month
from bough.domain.endpoint import EndpointState, request_state
from bough.errors import Busy
from bough.ids import EndpointId
from bough.operations.action import NewOperation
from bough.operations.actions.suspend_compute import SuspendCompute
from bough.operations.queue import OperationQueue
from bough.store.allowances import DataTransferUsage
from bough.store.store import Store

BATCH_SIZE = 500
REQUEST_ID = "keep-transfers"

T = TypeVar("T", bound=str)
logger = log.get_logger(component="tasks")


class EnforceTransferLimits:
    interval = 2.0

    def __init__(
        self,
        settings: Settings,
        *,
        store: Store,
        queue: OperationQueue,
        activity: EndpointActivity,
        allowances: AllowancePolicy,
    ) -> None:
        self._gateways = settings.gateway_folder
        self._store = store
        self._queue = queue
        self._activity = activity
        self._allowances = allowances

    async def run(self) -> str:
        for usage in await self._find_due():
            await self._count(usage)
        async with self._store.read() as rows:
            running = await rows.allowances.list_running_over_limit()
        count = sum([await self._suspend(endpoint_id) for endpoint_id in running])
        return f"suspending {count} computes of projects above their transfer limit" if count else ""

    async def _find_due(self) -> list[DataTransferUsage]:
        """Return the usage of projects that transferred data, and of those above their limit."""
        usages: list[DataTransferUsage] = []
        async with self._store.read() as rows:
            due = set(await rows.allowances.list_over_transfer_limit())
            for served in _batches(self._activity.take_with_outgoing_traffic()):
                due |= await rows.allowances.list_projects_of(served)
            for projects in _batches(due):
                usages += await rows.allowances.list_data_transfers(projects)
        return usages

    async def _count(self, usage: DataTransferUsage) -> None:
        project_id = usage.project_id
        month = None if is_unclaimed(usage) else start_of_month(clock.now())
        period = allowance.current_transfer_period(
            usage.period, project_id, usage.created_at, usage.transferred_bytes, month
        )
        period = allowance.update_transfer_period(
            period, usage.transferred_bytes, self._allowances.plan_for(usage).transfer_bytes
        )
        if period == usage.period:
            return
        async with self._store.transaction(durable=False) as rows:
            fresh = await rows.allowances.get_data_transfer(project_id)
            if fresh is None or fresh.period != usage.period:
                return  # the period was replaced in the meantime
            await rows.allowances.save_period(period)
            endpoints = [each.id for each in await rows.endpoints.list_in_project(project_id)]
        if period.is_limit_reached != (usage.period is not None and usage.period.is_limit_reached):
            logger.info("transfer_limit_changed", project_id=project_id, is_limit_reached=period.is_limit_reached)
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
