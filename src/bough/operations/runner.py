"""The runner: leases operations, runs their steps, and resumes them after a crash.

A lease has a fencing token, so that a runner whose lease has expired cannot write. A step during which control died is
counted, and the operation is set aside when that happens repeatedly: see `crashes`.

Urgent operations, which a client waits for, have workers of their own. One project never uses all workers, and an
operation that runs for long does not count against the limit, up to twice the number of workers: a compute that does
not answer delays the operations of its own project only.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from bough import clock, log
from bough.domain.operation import Operation
from bough.engine.port import Engine
from bough.errors import PlatformError
from bough.ids import OperationId, ProjectId
from bough.operations import crashes, metrics
from bough.operations.contents_sync import PlanLookup
from bough.operations.events import Events
from bough.operations.gateway_port import GatewayPort
from bough.operations.registry import ActionRegistry
from bough.operations.step_executor import StepExecutor
from bough.store.operations import NO_SATURATED_PROJECTS, LostLease, SaturatedProjects
from bough.store.store import Store

LEASE_DURATION = timedelta(seconds=12)
POLL_SECONDS = 1.0  # between two reads of the queue without a notification
LONG_RUNNING_SECONDS = 5.0  # an operation that takes longer no longer occupies a worker

logger = log.get_logger(component="operations")


@dataclass(frozen=True, slots=True)
class _RunningOperation:
    project_id: ProjectId
    started: float


def max_workers_per_project(workers: int) -> int:
    """How many of the workers one project may use at the same time."""
    return max(1, workers - max(1, workers // 4))


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
        plans: PlanLookup | None = None,
    ) -> None:
        self._store = store
        self._events = events
        self._actions = actions
        self._executor = StepExecutor(store, engine, events, actions, gateways=gateways, plans=plans)
        self._workers = {True: urgent_workers, False: workers}  # by whether an operation is urgent
        self._running: dict[bool, dict[asyncio.Task[None], _RunningOperation]] = {True: {}, False: {}}
        self._leases: dict[OperationId, int] = {}  # fences of the operations that run here
        self._suspects: set[OperationId] = set()  # those of them during which control has died before

    async def run(self) -> None:
        """Run until cancelled. Operations that are running then are abandoned and resumed at the next start."""
        if not self._store.is_shared:  # no other control can be alive: its operations continue at once
            await self._take_over()
        try:
            while True:
                try:
                    await self._start_next()
                except PlatformError as error:  # the store is unavailable
                    logger.error("queue_unreadable", error=str(error), cause=str(error.__cause__))
                    await asyncio.sleep(POLL_SECONDS)
        finally:
            running = [task for lane in self._running.values() for task in lane]
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await self._release_leases()

    async def _take_over(self) -> None:
        """Expire the leases of the previous control. After an orderly stop, operations that were set aside are tried
        again: the restart or upgrade may have removed the cause.
        """
        async with self._store.transaction() as rows:
            if await rows.operations.expire_leases():
                return
            now = clock.now()
            for operation in await rows.operations.list_set_aside(crashes.MAX_CRASHES):
                await rows.operations.save(replace(operation, due_at=now))

    async def _release_leases(self) -> None:
        """Release all leases, so that an orderly stop does not count as a crash."""
        with suppress(PlatformError):
            async with self._store.transaction(durable=False) as rows:
                for operation_id, fence in self._leases.items():
                    await rows.operations.release_lease(operation_id, fence)

    async def _start_next(self) -> None:
        enqueued = self._events.enqueued.next_event()
        lanes = [lane for lane in self._running if self._has_worker(lane)]
        saturated = {lane: self._saturated_projects(lane) for lane in lanes}
        if lanes and (operation := await self._lease_next(urgent=_only(lanes), excluding=saturated)):
            self._leases[operation.id] = operation.fence
            if crashes.is_suspect(operation):
                self._suspects.add(operation.id)
            task = asyncio.create_task(self._run_operation(operation))
            self._running[operation.is_urgent][task] = _RunningOperation(operation.project_id, clock.monotonic())
            task.add_done_callback(partial(self._task_ended, operation.id))
        else:
            await self._events.enqueued.wait(await self._until_due(lanes, saturated), enqueued)

    def _has_worker(self, lane: bool) -> bool:
        running, workers = self._running[lane], self._workers[lane]
        recent = clock.monotonic() - LONG_RUNNING_SECONDS
        return len(running) < 2 * workers and sum(each.started > recent for each in running.values()) < workers

    def _saturated_projects(self, lane: bool) -> list[ProjectId]:
        limit = max_workers_per_project(self._workers[lane])
        counts = Counter(each.project_id for each in self._running[lane].values())
        return [project for project, count in counts.items() if count >= limit]

    async def run_until_idle(self) -> None:
        """Run everything that is due, or becomes due meanwhile; for tools and tests."""
        while operation := await self._lease_next():
            await self._run_operation(operation)

    def _task_ended(self, operation_id: OperationId, task: asyncio.Task[None]) -> None:
        for running in self._running.values():
            running.pop(task, None)
        self._suspects.discard(operation_id)
        if not task.cancelled():  # the leases of cancelled tasks are released after all of them have ended
            self._leases.pop(operation_id, None)
        if not task.cancelled() and (error := task.exception()):  # the step is repeated under the next lease
            logger.error("operation_dropped", exc_info=error)
        self._events.enqueued.notify()

    async def _until_due(self, lanes: list[bool], saturated: SaturatedProjects = NO_SATURATED_PROJECTS) -> float:
        if not lanes:
            return POLL_SECONDS
        async with self._store.read() as rows:
            due_at = await rows.operations.get_next_due_time(
                urgent=_only(lanes), excluding=saturated, crashes_below=self._crashes_below
            )
        if due_at is None:
            return POLL_SECONDS
        return min(POLL_SECONDS, max(0.01, (due_at - clock.now()).total_seconds()))

    async def _lease_next(
        self, *, urgent: bool | None = None, excluding: SaturatedProjects = NO_SATURATED_PROJECTS
    ) -> Operation | None:
        below = self._crashes_below
        async with self._store.read() as rows:  # reading first avoids the write lock when nothing is due
            found = await rows.operations.get_next_due(
                clock.now(), urgent=urgent, excluding=excluding, crashes_below=below
            )
        if found is None:
            return None
        async with self._store.transaction(durable=False) as rows:
            while True:
                now = clock.now()
                found = await rows.operations.get_next_due(now, urgent=urgent, excluding=excluding, crashes_below=below)
                if found is None:
                    return None
                if found.lease_until is None:
                    return await rows.operations.lease(found, now + LEASE_DURATION, now)
                await rows.operations.save(self._record_crash(found))

    @property
    def _crashes_below(self) -> int | None:
        """While an operation runs that may have crashed control, no other such operation starts."""
        return crashes.SUSPECT_CRASHES if self._suspects else None

    def _record_crash(self, operation: Operation) -> Operation:
        """The lease expired, so the control that held it has died."""
        counted = crashes.record_crash(operation, clock.now(), can_undo=self._actions.can_undo(operation))
        event = "operation_set_aside" if crashes.is_set_aside(counted) else "step_interrupted"
        logger.error(
            event,
            operation_id=operation.id,
            project_id=operation.project_id,
            kind=operation.kind,
            step=operation.step,
            crashes=operation.crashes + 1,
            retried_at=counted.due_at.isoformat(),
        )
        metrics.count_crash(operation)
        return counted

    async def _run_operation(self, operation: Operation) -> None:
        with log.bound(operation_id=operation.id, request_id=operation.request_id, project_id=operation.project_id):
            heartbeat = asyncio.create_task(self._keep_lease(operation, asyncio.current_task()))
            try:
                await self._run_steps(operation)
            except LostLease:
                logger.warning("lease_lost", kind=operation.kind)
            finally:
                heartbeat.cancel()
                with suppress(asyncio.CancelledError):
                    await heartbeat

    async def _keep_lease(self, operation: Operation, worker: asyncio.Task[None] | None) -> None:
        while True:
            await asyncio.sleep(LEASE_DURATION.total_seconds() / 3)
            async with self._store.transaction(durable=False) as rows:
                is_held = await rows.operations.renew_lease(operation.id, operation.fence, clock.now() + LEASE_DURATION)
            if not is_held and worker is not None:
                worker.cancel()
                return

    async def _run_steps(self, operation: Operation) -> None:
        while not operation.has_ended and operation.lease_until is not None:
            operation = await self._executor.run_step(operation)


def _only(lanes: list[bool]) -> bool | None:
    """The only lane with free workers; None when both have some."""
    return lanes[0] if len(lanes) == 1 else None
