"""The runner: leases operations, runs their steps, and resumes them after a crash.

`workers` says how many operations run at the same time, `leases` which one is next, and `crashes` what happens to an
operation during which the control process died repeatedly.
"""

import asyncio
from contextlib import suppress
from functools import partial

from bough import clock, log
from bough.domain.operation import Lane, Operation
from bough.engine.port import Engine
from bough.errors import PlatformError
from bough.ids import OperationId
from bough.operations.contents_inspection import PlanLookup
from bough.operations.events import Events
from bough.operations.gateway_port import GatewayPort
from bough.operations.leases import Leases
from bough.operations.registry import ActionRegistry
from bough.operations.step_executor import StepExecutor
from bough.operations.workers import Workers
from bough.store.due_operations import NO_SATURATED_PROJECTS, SaturatedProjects
from bough.store.operations import LostLease
from bough.store.store import Store

POLL_SECONDS = 1.0  # between two reads of the queue without a notification

logger = log.get_logger(component="operations")


class OperationRunner:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        events: Events,
        actions: ActionRegistry,
        *,
        workers: int,
        urgent_workers: int = 1,
        gateways: GatewayPort | None = None,
        get_plan: PlanLookup | None = None,
    ) -> None:
        self._store = store
        self._events = events
        self._executor = StepExecutor(store, engine, events, actions, gateways=gateways, get_plan=get_plan)
        self._workers = Workers(urgent=urgent_workers, regular=workers)
        self._leases = Leases(store, actions)

    async def run(self) -> None:
        """Run until cancelled. Operations that are running then are abandoned and resumed at the next start."""
        if not self._store.is_shared:  # no other control process can be alive: its operations continue at once
            await self._leases.take_over()
        try:
            while True:
                try:
                    await self._start_next()
                except PlatformError as error:  # the store is unavailable
                    logger.error("queue_unreadable", error=str(error), cause=str(error.__cause__))
                    await asyncio.sleep(POLL_SECONDS)
        finally:
            running = self._workers.tasks
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await self._leases.release_all()

    async def run_until_idle(self) -> None:
        """Run everything that is due, or becomes due meanwhile; for tools and tests."""
        while operation := await self._leases.lease_next():
            await self._run_operation(operation)

    async def _start_next(self) -> None:
        enqueued = self._events.enqueued.next_event()
        lanes = self._workers.find_free_lanes()
        saturated = {lane: self._workers.find_saturated_projects(lane) for lane in lanes}
        if lanes and (operation := await self._leases.lease_next(lane=_only(lanes), excluding=saturated)):
            self._leases.track(operation)
            task = asyncio.create_task(self._run_operation(operation))
            self._workers.add(operation, task)
            task.add_done_callback(partial(self._task_ended, operation.id))
        else:
            await self._events.enqueued.wait(await self._until_due(lanes, saturated), enqueued)

    async def _until_due(self, lanes: list[Lane], saturated: SaturatedProjects = NO_SATURATED_PROJECTS) -> float:
        if not lanes:
            return POLL_SECONDS
        due_at = await self._leases.find_next_due_time(_only(lanes), saturated)
        if due_at is None:
            return POLL_SECONDS
        return min(POLL_SECONDS, max(0.01, (due_at - clock.now()).total_seconds()))

    def _task_ended(self, operation_id: OperationId, task: asyncio.Task[None]) -> None:
        self._workers.remove(task)
        self._leases.untrack(operation_id, is_cancelled=task.cancelled())
        if not task.cancelled() and (error := task.exception()):  # the step is repeated under the next lease
            logger.error("operation_task_failed", exc_info=error)
        self._events.enqueued.notify()

    async def _run_operation(self, operation: Operation) -> None:
        with log.bound(operation_id=operation.id, request_id=operation.request_id, project_id=operation.project_id):
            heartbeat = asyncio.create_task(self._leases.renew(operation, asyncio.current_task()))
            try:
                await self._run_steps(operation)
            except LostLease:
                logger.warning("lease_lost", kind=operation.kind)
            finally:
                heartbeat.cancel()
                with suppress(asyncio.CancelledError):
                    await heartbeat

    async def _run_steps(self, operation: Operation) -> None:
        while not operation.has_ended and operation.lease_until is not None:
            operation = await self._executor.run_step(operation)


def _only(lanes: list[Lane]) -> Lane | None:
    """Return the only lane with free workers; None when both have some."""
    return lanes[0] if len(lanes) == 1 else None
