"""Enqueue in a transaction, behind nothing that conflicts.

A request that meets conflicting work is held for a moment, because the work is usually over
soon; then it gets `Busy`. There is no queue without end.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from bough import clock
from bough.domain.operation import Operation, OperationStatus, Touch, conflict, touch_of
from bough.errors import Busy
from bough.ids import OperationId
from bough.operations.action import Action, Wish, key_of
from bough.operations.crashes import is_set_aside
from bough.operations.events import Events
from bough.store.store import Rows, Store

_LOOK_AGAIN = 0.5  # seconds; another control may have ended the work without our hearing of it


class Queue:
    def __init__(self, store: Store, events: Events, actions: Sequence[type[Action]], hold_seconds: float) -> None:
        self._store = store
        self._events = events
        self._first_step = {action.key(): action.steps[0] for action in actions}
        self._hold_seconds = hold_seconds

    @asynccontextmanager
    async def turn(self, *touches: Touch, patient: bool = True) -> AsyncIterator[Rows]:
        """A transaction in which no open operation conflicts with any of these.

        Without patience, as for a task that comes back, nothing is waited for: no conflict and no disk.
        """
        deadline = clock.monotonic() + (self._hold_seconds if patient else 0)
        while True:
            ended = self._events.ended.next()
            async with self._store.transaction(lasting=patient) as rows:
                obstacle = await obstacle_to(rows, *touches)
                if obstacle is None:
                    yield rows
                    break
            remaining = deadline - clock.monotonic()
            if remaining <= 0:
                raise Busy(
                    f"The project already has a conflicting operation in progress ({obstacle.action} "
                    f"{obstacle.id} is {obstacle.status}). Nothing was changed; {_next_step(obstacle)}"
                )
            await self._events.ended.wait(min(remaining, _LOOK_AGAIN), ended)
        self._events.enqueued.beat()

    async def enqueue(
        self,
        rows: Rows,
        wishes: Sequence[Wish],
        request_id: str,
        *,
        urgent: bool = False,
        behind: OperationId | None = None,
    ) -> list[Operation]:
        """Write the wishes in the given transaction; each waits for the one before it, the first for `behind`."""
        now = clock.now()
        operations: list[Operation] = []
        for wish in wishes:
            after = operations[-1].id if operations else behind
            # A microsecond apart, so that lists show them in the order they run.
            moment = now + timedelta(microseconds=len(operations))
            operation = replace(self._planned(wish, after, request_id, moment), is_urgent=urgent)
            await rows.operations.add(operation)
            operations.append(operation)
        return operations

    def _planned(self, wish: Wish, after: OperationId | None, request_id: str, now: datetime) -> Operation:
        return Operation(
            id=OperationId.new(),
            project_id=wish.project_id,
            branch_id=wish.branch_id,
            endpoint_id=wish.endpoint_id,
            action=wish.action,
            status=OperationStatus.SCHEDULING if after else OperationStatus.RUNNING,
            parameters=wish.parameters,
            after=after,
            step=self._first_step[key_of(wish)],
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


def _next_step(obstacle: Operation) -> str:
    if is_set_aside(obstacle):
        return f"{obstacle.error} It is tried again at {obstacle.due_at:%Y-%m-%d %H:%M} UTC."
    return "try again in a moment."


async def obstacle_to(rows: Rows, *touches: Touch) -> Operation | None:
    """Open work that conflicts. From here on nobody else decides about the projects in this transaction's time."""
    for touch in sorted(touches, key=lambda each: each.project_id):  # in one order, so that no two wait for each other
        await rows.projects.lock(touch.project_id)
        for operation in await rows.operations.open_of(touch.project_id):
            if conflict(touch, touch_of(operation)):
                return operation
    return None
