"""Projects transfer to their clients what their plan allows, in each month; those that nobody claimed, in all.

What a project moved is counted as it is shown. When all is used up, its computes sleep, and nobody is let in until
the month, the claim or a larger plan gives it more.
"""

from collections.abc import Collection, Iterator
from typing import TypeVar

from bough import clock, log
from bough.config import Settings
from bough.control import telling
from bough.control.activity import Activity
from bough.control.allowances import Allowances, is_unclaimed
from bough.domain import allowance
from bough.domain.endpoint import EndpointState, wishing
from bough.domain.operation import OperationAction
from bough.errors import Busy
from bough.ids import EndpointId
from bough.operations.action import Wish
from bough.operations.queue import Queue
from bough.store.allowances import Transferred
from bough.store.store import Store

AT_ONCE = 500
REQUEST_ID = "keep-transfers"

T = TypeVar("T", bound=str)
logger = log.get(room="tasks")


class KeepTransfers:
    every = 2.0

    def __init__(
        self, settings: Settings, *, store: Store, queue: Queue, activity: Activity, allowances: Allowances
    ) -> None:
        self._gateways = settings.gateway_folder
        self._store = store
        self._queue = queue
        self._activity = activity
        self._allowances = allowances

    async def run(self) -> str:
        for transferred in await self._due():
            await self._count(transferred)
        async with self._store.read() as rows:
            running = await rows.allowances.running_over()
        count = sum([await self._suspend(endpoint_id) for endpoint_id in running])
        return f"suspending {count} computes of projects that transferred all they may" if count else ""

    async def _due(self) -> list[Transferred]:
        """Of projects whose clients got something, and of those that may get more than before."""
        found: list[Transferred] = []
        async with self._store.read() as rows:
            due = set(await rows.allowances.over())
            for served in _parts(self._activity.take_served()):
                due |= await rows.allowances.projects_of(served)
            for projects in _parts(due):
                found += await rows.allowances.transferred_by(projects)
        return found

    async def _count(self, found: Transferred) -> None:
        project_id = found.project_id
        month = None if is_unclaimed(found) else allowance.month_of(clock.now())
        period = allowance.period(found.period, project_id, found.created_at, found.moved, month)
        period = allowance.counted(period, found.moved, self._allowances.plan(found).transfer_bytes)
        if period == found.period:
            return
        async with self._store.transaction(lasting=False) as rows:
            fresh = await rows.allowances.transferred(project_id)
            if fresh is None or fresh.period != found.period:
                return  # somebody gave it a new one
            await rows.allowances.put_period(period)
            endpoints = [each.id for each in await rows.endpoints.of_project(project_id)]
        if period.is_over != (found.period is not None and found.period.is_over):
            logger.info("transfer_allowance", project_id=project_id, is_over=period.is_over)
            for endpoint_id in endpoints:
                self._activity.changed(endpoint_id)
            await telling.forget(self._gateways, endpoints)

    async def _suspend(self, endpoint_id: EndpointId) -> bool:
        """Whoever is connected is cut off."""
        async with self._store.read() as rows:
            endpoint = await rows.endpoints.living(endpoint_id)
        if endpoint is None:
            return False
        wish = Wish(OperationAction.SUSPEND_COMPUTE, endpoint.project_id, endpoint.branch_id, endpoint.id)
        try:
            async with self._queue.turn(wish.touch, patient=False) as rows:
                fresh = await rows.endpoints.living(endpoint_id)
                if fresh is None or fresh.state is not EndpointState.ACTIVE:
                    return False
                await rows.endpoints.save(wishing(fresh, EndpointState.IDLE, clock.now()))
                await self._queue.enqueue(rows, [wish], request_id=REQUEST_ID)
        except Busy:
            return False  # the next beat tries again
        return True


def _parts(ids: Collection[T]) -> Iterator[list[T]]:
    """As many as one question may name."""
    in_order = sorted(ids)
    for first in range(0, len(in_order), AT_ONCE):
        yield in_order[first : first + AT_ONCE]
