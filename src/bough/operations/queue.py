"""Enqueue in a transaction, behind nothing that conflicts.

A request that meets conflicting work is held for a moment, because the work is usually over
soon; then it gets `Busy`. There is no queue without end.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from bough import clock
from bough.domain.operation import LockScope, Operation, OperationStatus, lock_of, locks_conflict
from bough.errors import Busy
from bough.ids import OperationId
from bough.operations.action import Action, NewOperation, action_key
from bough.operations.crashes import is_set_aside
from bough.operations.events import Events
from bough.store.store import Rows, Store

_POLL_SECONDS = 0.5  # seconds; another control may have ended the work without our hearing of it


class OperationQueue:
    def __init__(self, store: Store, events: Events, actions: Sequence[type[Action]], hold_seconds: float) -> None:
        self._store = store
        self._events = events
        self._first_step = {action.key(): action.steps[0] for action in actions}
        self._hold_seconds = hold_seconds

    @asynccontextmanager
    async def locked_transaction(self, *locks: LockScope, can_wait: bool = True) -> AsyncIterator[Rows]:
        """A transaction in which no open operation conflicts with any of these.

        Without patience, as for a task that comes back, nothing is waited for: no conflict and no disk.
        """
        deadline = clock.monotonic() + (self._hold_seconds if can_wait else 0)
        while True:
            ended = self._events.ended.next_event()
            async with self._store.transaction(durable=can_wait) as rows:
                obstacle = await find_conflict(rows, *locks)
                if obstacle is None:
                    yield rows
                    break
            remaining = deadline - clock.monotonic()
            if remaining <= 0:
                raise Busy(
                    f"The project already has a conflicting operation in progress ({obstacle.action} "
                    f"{obstacle.id} is {obstacle.status}). Nothing was changed; {_advice(obstacle)}"
                )
            await self._events.ended.wait(min(remaining, _POLL_SECONDS), ended)
        self._events.enqueued.notify()

    async def enqueue(
        self,
        rows: Rows,
        new_operations: Sequence[NewOperation],
        request_id: str,
        *,
        is_urgent: bool = False,
        predecessor_id: OperationId | None = None,
    ) -> list[Operation]:
        """Write the wishes in the given transaction; each waits for the one before it, the first for `behind`."""
        now = clock.now()
        operations: list[Operation] = []
        for wish in new_operations:
            after = operations[-1].id if operations else predecessor_id
            # A microsecond apart, so that lists show them in the order they run.
            moment = now + timedelta(microseconds=len(operations))
            operation = replace(self._new_row(wish, after, request_id, moment), is_urgent=is_urgent)
            await rows.operations.add(operation)
            operations.append(operation)
        return operations

    def _new_row(self, wish: NewOperation, after: OperationId | None, request_id: str, now: datetime) -> Operation:
        return Operation(
            id=OperationId.new(),
            project_id=wish.project_id,
            branch_id=wish.branch_id,
            endpoint_id=wish.endpoint_id,
            action=wish.action,
            status=OperationStatus.SCHEDULING if after else OperationStatus.RUNNING,
            parameters=wish.parameters,
            after=after,
            step=self._first_step[action_key(wish)],
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
        )


def _advice(obstacle: Operation) -> str:
    if is_set_aside(obstacle):
        return f"{obstacle.error} It is tried again at {obstacle.due_at:%Y-%m-%d %H:%M} UTC."
    return "try again in a moment."


async def find_conflict(rows: Rows, *locks: LockScope) -> Operation | None:
    """Open work that conflicts. From here on nobody else decides about the projects in this transaction's time."""
    for touch in sorted(locks, key=lambda each: each.project_id):  # in one order, so that no two wait for each other
        await rows.projects.lock(touch.project_id)
        for operation in await rows.operations.list_open(touch.project_id):
            if locks_conflict(touch, lock_of(operation)):
                return operation
    return None
