"""The queue of operations: enqueue in a transaction, but only when no open operation conflicts.

A request that conflicts with an open operation waits for a moment, because operations usually end soon; then it
fails with `Busy`. Requests do not queue up without limit.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from bough import clock
from bough.domain.locks import LockScope, locks_conflict
from bough.domain.operation import Operation, OperationStatus
from bough.errors import Busy
from bough.ids import OperationId
from bough.operations.action import NewOperation
from bough.operations.crashes import is_set_aside
from bough.operations.events import Events
from bough.operations.registry import ActionRegistry
from bough.store.store import Rows, Store

_POLL_SECONDS = 0.5  # another control process may have ended the operation, without a notification


class OperationQueue:
    def __init__(self, store: Store, events: Events, actions: ActionRegistry, conflict_timeout: float) -> None:
        self._store = store
        self._events = events
        self._actions = actions
        self._conflict_timeout = conflict_timeout

    @asynccontextmanager
    async def locked_transaction(self, *locks: LockScope, can_wait: bool = True) -> AsyncIterator[Rows]:
        """Open a transaction in which no open operation conflicts with any of the locks.

        With `can_wait=False`, for tasks that run again anyway, it waits neither for a conflict to end nor for the disk.
        """
        deadline = clock.monotonic() + (self._conflict_timeout if can_wait else 0)
        while True:
            ended = self._events.ended.next_event()
            async with self._store.transaction(durable=can_wait) as rows:
                obstacle = await self.find_conflict(rows, *locks)
                if obstacle is None:
                    yield rows
                    break
            remaining = deadline - clock.monotonic()
            if remaining <= 0:
                raise Busy(
                    f"The project already has a conflicting operation in progress ({obstacle.stored_action} "
                    f"{obstacle.id} is {obstacle.status}). Nothing was changed; {_advice(obstacle)}"
                )
            await self._events.ended.wait(min(remaining, _POLL_SECONDS), ended)
        self._events.enqueued.notify()

    async def find_conflict(self, rows: Rows, *locks: LockScope) -> Operation | None:
        """Return an open operation that conflicts, and lock the projects until the transaction ends."""
        for lock in sorted(locks, key=lambda each: each.project_id):  # a fixed order prevents deadlocks
            await rows.projects.lock(lock.project_id)
            for operation in await rows.operations.list_open(lock.project_id):
                if locks_conflict(lock, self._actions.lock_of(operation)):
                    return operation
        return None

    def lock_of(self, operation: Operation) -> LockScope:
        return self._actions.lock_of(operation)

    async def enqueue(
        self,
        rows: Rows,
        new_operations: Sequence[NewOperation],
        request_id: str,
        *,
        is_urgent: bool = False,
        predecessor_id: OperationId | None = None,
    ) -> list[Operation]:
        """Add the operations. Each waits for the one before it, and the first one for `predecessor_id`."""
        now = clock.now()
        operations: list[Operation] = []
        for new in new_operations:
            after = operations[-1].id if operations else predecessor_id
            # A microsecond apart, so that lists show them in the order in which they run.
            created_at = now + timedelta(microseconds=len(operations))
            operation = _new_row(new, after, request_id, created_at, is_urgent=is_urgent)
            await rows.operations.add(operation)
            operations.append(operation)
        return operations


def _new_row(
    new: NewOperation, after: OperationId | None, request_id: str, now: datetime, *, is_urgent: bool
) -> Operation:
    return Operation(
        id=OperationId.new(),
        project_id=new.project_id,
        branch_id=new.branch_id,
        endpoint_id=new.endpoint_id,
        kind=new.action.kind,
        status=OperationStatus.SCHEDULING if after else OperationStatus.RUNNING,
        parameters=new.params.encode(),
        after=after,
        step=new.action.steps[0],
        steps_done=(),
        undoing=False,
        failures=0,
        error=None,
        due_at=now,
        lease_until=None,
        fence=0,
        request_id=request_id,
        created_at=now,
        updated_at=now,
        is_urgent=is_urgent,
    )


def _advice(obstacle: Operation) -> str:
    if is_set_aside(obstacle):
        return f"{obstacle.error} It is tried again at {obstacle.due_at:%Y-%m-%d %H:%M} UTC."
    return "try again in a moment."
