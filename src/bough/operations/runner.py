"""The runner: lease an operation, run one step, record it, go on; resume after a crash.

A lease has a fencing token, so a runner that was thought dead cannot write. A step that fails
is repeated a few times when its error says that may help; otherwise the action is undone and
ends as failed with a public sentence. Actions that only go forward are repeated until they succeed.

A step during which control died is counted, and set aside when that happens again and again: see `crashes`.

Urgent operations, those that somebody waits for at the door, have workers of their own. One project never has all of
them, and an operation that takes long makes room for another, as often as there are workers: a compute that does not
answer holds up the operations of its own project and no others.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from bough import clock, log
from bough.domain.operation import Operation, OperationStatus
from bough.engine.port import Engine
from bough.errors import PlatformError
from bough.ids import OperationId, ProjectId
from bough.operations import crashes, metrics
from bough.operations.action import Action, action_key
from bough.operations.contents_sync import PlanLookup
from bough.operations.context import ActionContext
from bough.operations.events import Events
from bough.operations.gateway_port import GatewayPort
from bough.operations.outcome import Done, Goto, Outcome, Sleep
from bough.store.operations import NO_SATURATED_PROJECTS, LostLease, SaturatedProjects
from bough.store.store import Store

LEASE_DURATION = timedelta(seconds=12)
MAX_FAILURES = 5  # of one action, before it is undone
MAX_SLEEP_UNDER_LEASE = 1.0  # a shorter sleep keeps the lease
PREDECESSOR_FAILED = "An operation that had to come first failed"
POLL_SECONDS = 1.0  # seconds between looks at the queue when nothing woke us
LONG_RUNNING_SECONDS = 5.0  # seconds; what takes longer makes room for another

logger = log.get_logger(component="operations")


@dataclass(frozen=True, slots=True)
class _RunningOperation:
    project_id: ProjectId
    began: float


def max_workers_per_project(workers: int) -> int:
    """How many of the workers one project may have at once."""
    return max(1, workers - max(1, workers // 4))


class OperationRunner:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        events: Events,
        actions: Sequence[type[Action]],
        *,
        workers: int,
        urgent_workers: int = 1,
        gateways: GatewayPort | None = None,
        plans: PlanLookup | None = None,
    ) -> None:
        self._store = store
        self._engine = engine
        self._events = events
        self._gateways = gateways
        self._plans = plans
        self._actions = {action.key(): action for action in actions}
        self._workers = {True: urgent_workers, False: workers}  # by whether an operation is urgent
        self._running: dict[bool, dict[asyncio.Task[None], _RunningOperation]] = {True: {}, False: {}}
        self._leases: dict[OperationId, int] = {}  # what runs here, by its fence
        self._suspects: set[OperationId] = set()  # of these, those during which control died before

    async def run(self) -> None:
        """Until cancelled. Work under way is dropped where it stands and resumed at the next start."""
        if not self._store.is_shared:  # whoever held a lease is dead: its work goes on at once
            await self._take_over()
        try:
            while True:
                try:
                    await self._begin_next()
                except PlatformError as error:  # the store is away; it will be back
                    logger.error("queue_unreadable", error=str(error), cause=str(error.__cause__))
                    await asyncio.sleep(POLL_SECONDS)
        finally:
            running = [task for lane in self._running.values() for task in lane]
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await self._release_held()

    async def _take_over(self) -> None:
        """What the control before us left. When it stopped in order, what was set aside is tried again: whoever
        restarted or upgraded the platform may have removed the cause.
        """
        async with self._store.transaction() as rows:
            if await rows.operations.expire_leases():
                return
            now = clock.now()
            for operation in await rows.operations.list_set_aside(crashes.MAX_CRASHES):
                await rows.operations.save(replace(operation, due_at=now))

    async def _release_held(self) -> None:
        """So that an orderly stop is not taken for a crash."""
        with suppress(PlatformError):
            async with self._store.transaction(durable=False) as rows:
                for operation_id, fence in self._leases.items():
                    await rows.operations.release_lease(operation_id, fence)

    async def _begin_next(self) -> None:
        enqueued = self._events.enqueued.next_event()
        free = [lane for lane in self._running if self._has_worker(lane)]
        full = {lane: self._full_projects(lane) for lane in free}
        if free and (operation := await self._lease_next(urgent=_only(free), without=full)):
            self._leases[operation.id] = operation.fence
            if crashes.is_suspect(operation):
                self._suspects.add(operation.id)
            task = asyncio.create_task(self._work(operation))
            self._running[operation.is_urgent][task] = _RunningOperation(operation.project_id, clock.monotonic())
            task.add_done_callback(partial(self._over, operation.id))
        else:
            await self._events.enqueued.wait(await self._until_due(free, full), enqueued)

    def _has_worker(self, lane: bool) -> bool:
        running, workers = self._running[lane], self._workers[lane]
        lately = clock.monotonic() - LONG_RUNNING_SECONDS
        return len(running) < 2 * workers and sum(work.began > lately for work in running.values()) < workers

    def _full_projects(self, lane: bool) -> list[ProjectId]:
        most = max_workers_per_project(self._workers[lane])
        held = Counter(work.project_id for work in self._running[lane].values())
        return [project for project, count in held.items() if count >= most]

    async def run_until_idle(self) -> None:
        """Run everything that is due or becomes due while it lasts; for tools and tests."""
        while operation := await self._lease_next():
            await self._work(operation)

    def _over(self, operation_id: OperationId, task: asyncio.Task[None]) -> None:
        for running in self._running.values():
            running.pop(task, None)
        self._suspects.discard(operation_id)
        if not task.cancelled():  # a lease that a stop cut off is given back when all have stopped
            self._leases.pop(operation_id, None)
        if not task.cancelled() and (error := task.exception()):  # what it could not record, the next lease repeats
            logger.error("operation_dropped", exc_info=error)
        self._events.enqueued.notify()

    async def _until_due(self, free: list[bool], full: SaturatedProjects = NO_SATURATED_PROJECTS) -> float:
        if not free:
            return POLL_SECONDS
        async with self._store.read() as rows:
            moment = await rows.operations.get_next_due_time(
                urgent=_only(free), excluding=full, crashes_below=self._crashes_below
            )
        if moment is None:
            return POLL_SECONDS
        return min(POLL_SECONDS, max(0.01, (moment - clock.now()).total_seconds()))

    async def _lease_next(
        self, *, urgent: bool | None = None, without: SaturatedProjects = NO_SATURATED_PROJECTS
    ) -> Operation | None:
        below = self._crashes_below
        async with self._store.read() as rows:  # a look costs no write lock
            found = await rows.operations.get_next_due(
                clock.now(), urgent=urgent, excluding=without, crashes_below=below
            )
        if found is None:
            return None
        async with self._store.transaction(durable=False) as rows:
            while True:
                now = clock.now()
                found = await rows.operations.get_next_due(now, urgent=urgent, excluding=without, crashes_below=below)
                if found is None:
                    return None
                if found.lease_until is None:
                    return await rows.operations.lease(found, now + LEASE_DURATION, now)
                await rows.operations.save(self._counted(found))

    @property
    def _crashes_below(self) -> int | None:
        """While one runs that may be why control died, no other such operation runs beside it."""
        return crashes.SUSPECT_CRASHES if self._suspects else None

    def _counted(self, operation: Operation) -> Operation:
        """One whose lease lapsed: whoever held it died without a word."""
        action = self._actions.get(action_key(operation))
        counted = crashes.record_crash(operation, clock.now(), forward_only=action is None or action.is_forward_only)
        event = "operation_set_aside" if crashes.is_set_aside(counted) else "step_cut_off"
        logger.error(
            event,
            operation_id=operation.id,
            project_id=operation.project_id,
            action=operation.action,
            step=operation.step,
            crashes=operation.crashes + 1,
            tried_again_at=counted.due_at.isoformat(),
        )
        metrics.count_crash(operation)
        return counted

    async def _work(self, operation: Operation) -> None:
        with log.bound(operation_id=operation.id, request_id=operation.request_id, project_id=operation.project_id):
            heartbeat = asyncio.create_task(self._keep_lease(operation, asyncio.current_task()))
            try:
                await self._until_released(operation)
            except LostLease:
                logger.warning("lease_lost", action=operation.action)
            finally:
                heartbeat.cancel()
                with suppress(asyncio.CancelledError):
                    await heartbeat

    async def _keep_lease(self, operation: Operation, worker: asyncio.Task[None] | None) -> None:
        while True:
            await asyncio.sleep(LEASE_DURATION.total_seconds() / 3)
            async with self._store.transaction(durable=False) as rows:
                held = await rows.operations.renew_lease(operation.id, operation.fence, clock.now() + LEASE_DURATION)
            if not held and worker is not None:
                worker.cancel()
                return

    async def _until_released(self, operation: Operation) -> None:
        while not operation.has_ended and operation.lease_until is not None:
            operation = await self._one_step(operation)

    async def _one_step(self, operation: Operation) -> Operation:
        action = self._actions[action_key(operation)](operation)
        ctx = ActionContext(self._store, self._engine, operation, self._gateways, self._plans)
        try:
            if operation.undoing:
                return await self._undo_one(action, ctx)
            return await self._advance(operation, await action.run(operation.step, ctx))
        except LostLease:
            raise
        except Exception as error:  # noqa: BLE001  the runner is where errors of actions end
            return await self._failed(action, error)

    async def _advance(self, operation: Operation, outcome: Outcome) -> Operation:
        if isinstance(outcome, Sleep):
            return await self._asleep(operation, outcome)
        done = (*operation.steps_done, operation.step)
        if isinstance(outcome, Goto):
            return await self._save(replace(operation, steps_done=done, step=outcome.name, error=None, crashes=0))
        assert isinstance(outcome, Done)
        status = OperationStatus.FINISHED if outcome.has_changed else OperationStatus.SKIPPED
        return await self._end(replace(operation, steps_done=done, error=None), status, outcome)

    async def _asleep(self, operation: Operation, sleep: Sleep) -> Operation:
        logger.debug("operation_sleeps", action=operation.action, step=operation.step, why=sleep.reason)
        if sleep.seconds < MAX_SLEEP_UNDER_LEASE:
            await asyncio.sleep(sleep.seconds)
            return operation
        due = clock.now() + timedelta(seconds=sleep.seconds)
        return await self._save(replace(operation, due_at=due, lease_until=None))

    async def _failed(self, action: Action, error: Exception) -> Operation:
        operation = action.operation
        public = (
            error.public_message if isinstance(error, PlatformError) else "An internal error happened; the log has it."
        )
        expected = isinstance(error, PlatformError)
        logger.error(
            "step_failed",
            action=operation.action,
            step=operation.step,
            error=str(error),
            failures=operation.failures + 1,
            exc_info=None if expected else error,
        )
        metrics.count_step_failure(operation)
        failed = replace(operation, failures=operation.failures + 1, error=public)
        hopeless = isinstance(error, PlatformError) and not error.transient
        if (hopeless or failed.failures >= MAX_FAILURES) and not action.is_forward_only and not operation.undoing:
            return await self._save(replace(failed, undoing=True, steps_done=(*failed.steps_done, failed.step)))
        pause = min(60.0, 0.2 * 2 ** min(failed.failures, 10))
        return await self._save(replace(failed, due_at=clock.now() + timedelta(seconds=pause), lease_until=None))

    async def _undo_one(self, action: Action, ctx: ActionContext) -> Operation:
        operation = action.operation
        if operation.steps_done:
            await action.undo(operation.steps_done[-1], ctx)
            return await self._save(replace(operation, steps_done=operation.steps_done[:-1], crashes=0))
        cancelled = operation.status is OperationStatus.CANCELLING
        status = OperationStatus.CANCELLED if cancelled else OperationStatus.FAILED
        return await self._end(operation, status, Done(operation.error or "undone"))

    async def _save(self, operation: Operation) -> Operation:
        saved = replace(operation, updated_at=clock.now())
        async with self._store.transaction(durable=False) as rows:
            await rows.operations.save(saved)
        return saved

    async def _end(self, operation: Operation, status: OperationStatus, outcome: Done) -> Operation:
        now = clock.now()
        ended = replace(operation, status=status, ended_at=now, updated_at=now, lease_until=None)
        async with self._store.transaction(durable=False) as rows:
            await rows.operations.save(ended)  # first, because it fails unless the lease is ours
            if outcome.writes is not None:
                await outcome.writes(rows)
            if status in (OperationStatus.FAILED, OperationStatus.CANCELLED):
                for waiting in await rows.operations.list_waiting_for(operation.id):
                    await rows.operations.save(_cancelling(waiting, operation.error))
        metrics.observe_end(ended)
        logger.info("operation_ended", action=operation.action, status=status, sentence=outcome.message)
        self._events.enqueued.notify()
        self._events.ended.notify()
        return ended


def _only(lanes: list[bool]) -> bool | None:
    """The one lane that has workers left; None when both have."""
    return lanes[0] if len(lanes) == 1 else None


def _cancelling(operation: Operation, why: str | None) -> Operation:
    """What waited for failed work never begins: its wish is undone from its first step."""
    return replace(
        operation,
        status=OperationStatus.CANCELLING,
        undoing=True,
        steps_done=(operation.step,),
        error=why if why and why.startswith(PREDECESSOR_FAILED) else f"{PREDECESSOR_FAILED}: {why or 'it was undone.'}",
        updated_at=clock.now(),
    )
