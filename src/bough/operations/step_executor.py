"""Runs one step of a leased operation and records its outcome.

A step that fails is repeated a few times when its error may be transient; otherwise the action is undone and the
operation ends as failed with a public message. Forward-only actions are repeated until they succeed.
"""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

from bough import clock, log
from bough.domain.operation import Operation, OperationStatus
from bough.engine.port import Engine
from bough.errors import PlatformError
from bough.operations import metrics
from bough.operations.action import Action
from bough.operations.contents_inspection import PlanLookup
from bough.operations.context import ActionContext
from bough.operations.events import Events
from bough.operations.gateway_port import GatewayPort
from bough.operations.outcome import Done, Goto, Outcome, Sleep
from bough.operations.registry import ActionRegistry
from bough.store.operations import LostLease
from bough.store.store import Store

MAX_FAILURES = 5  # of one operation, before it is undone
MAX_SLEEP_UNDER_LEASE = 1.0  # seconds; a shorter sleep keeps the lease
MAX_RETRY_SECONDS = 60.0
PREDECESSOR_FAILED = "The operation that this one waited for failed"

logger = log.get_logger(component="operations")


class StepExecutor:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        events: Events,
        actions: ActionRegistry,
        *,
        gateways: GatewayPort | None = None,
        get_plan: PlanLookup | None = None,
    ) -> None:
        self._store = store
        self._engine = engine
        self._events = events
        self._actions = actions
        self._gateways = gateways
        self._get_plan = get_plan

    async def run_step(self, operation: Operation) -> Operation:
        """Return the operation as it was recorded. Raises when its parameters cannot be decoded."""
        action = self._actions.get(operation.kind)(operation)
        ctx = ActionContext(
            self._store,
            self._engine,
            operation,
            lock_of=self._actions.lock_of,
            gateways=self._gateways,
            get_plan=self._get_plan,
        )
        try:
            if operation.undoing:
                return await self._undo_step(action, ctx)
            return await self._advance(operation, await action.run(operation.step, ctx))
        except LostLease:
            raise
        except Exception as error:  # noqa: BLE001  any error of an action ends here
            return await self._record_failure(action, error)

    async def _advance(self, operation: Operation, outcome: Outcome) -> Operation:
        if isinstance(outcome, Sleep):
            return await self._sleep(operation, outcome)
        done = (*operation.steps_done, operation.step)
        if isinstance(outcome, Goto):
            return await self._save(replace(operation, steps_done=done, step=outcome.name, error=None, crashes=0))
        assert isinstance(outcome, Done)
        status = OperationStatus.FINISHED if outcome.has_changed else OperationStatus.SKIPPED
        return await self._end(replace(operation, steps_done=done, error=outcome.shortcoming), status, outcome)

    async def _sleep(self, operation: Operation, sleep: Sleep) -> Operation:
        logger.debug("operation_sleeps", kind=operation.kind, step=operation.step, reason=sleep.reason)
        if sleep.seconds < MAX_SLEEP_UNDER_LEASE:
            await asyncio.sleep(sleep.seconds)
            return operation
        due = clock.now() + timedelta(seconds=sleep.seconds)
        return await self._save(replace(operation, due_at=due, lease_until=None))

    async def _record_failure(self, action: Action[Any], error: Exception) -> Operation:
        operation = action.operation
        expected = error if isinstance(error, PlatformError) else None
        logger.error(
            "step_failed",
            kind=operation.kind,
            step=operation.step,
            error=str(error),
            failures=operation.failures + 1,
            exc_info=None if expected else error,
        )
        metrics.count_step_failure(operation)
        message = expected.public_message if expected else "An internal error occurred; see the log."
        failed = replace(operation, failures=operation.failures + 1, error=message)
        is_permanent = expected is not None and not expected.transient
        if (is_permanent or failed.failures >= MAX_FAILURES) and not action.is_forward_only and not operation.undoing:
            return await self._save(replace(failed, undoing=True, steps_done=(*failed.steps_done, failed.step)))
        pause = min(MAX_RETRY_SECONDS, 0.2 * 2 ** min(failed.failures, 10))
        return await self._save(replace(failed, due_at=clock.now() + timedelta(seconds=pause), lease_until=None))

    async def _undo_step(self, action: Action[Any], ctx: ActionContext) -> Operation:
        operation = action.operation
        if operation.steps_done:
            await action.undo(operation.steps_done[-1], ctx)
            return await self._save(replace(operation, steps_done=operation.steps_done[:-1], crashes=0))
        is_cancelled = operation.status is OperationStatus.CANCELLING
        status = OperationStatus.CANCELLED if is_cancelled else OperationStatus.FAILED
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
            await rows.operations.save(ended)  # first, because it fails when the lease is lost
            if outcome.writes is not None:
                await outcome.writes(rows)
            if status in (OperationStatus.FAILED, OperationStatus.CANCELLED):
                for waiting in await rows.operations.list_waiting_for(operation.id):
                    await rows.operations.save(_cancel(waiting, operation.error))
        metrics.observe_end(ended)
        logger.info("operation_ended", kind=operation.kind, status=status, outcome=outcome.message)
        self._events.enqueued.notify()
        self._events.ended.notify()
        return ended


def _cancel(operation: Operation, reason: str | None) -> Operation:
    """An operation that waits for a failed one never runs; undoing its first step reverts what was requested."""
    is_inherited = reason is not None and reason.startswith(PREDECESSOR_FAILED)
    return replace(
        operation,
        status=OperationStatus.CANCELLING,
        undoing=True,
        steps_done=(operation.step,),
        error=reason if is_inherited else f"{PREDECESSOR_FAILED}: {reason or 'it was undone.'}",
        updated_at=clock.now(),
    )
