"""Leases of operations.

A lease has a fencing token, so that a runner whose lease has expired cannot write. When a lease has expired, the
control process that held it has died during the step: see `crashes`.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from bough import clock, log
from bough.domain.operation import Lane, Operation
from bough.errors import PlatformError
from bough.ids import OperationId
from bough.operations import crashes, metrics
from bough.operations.registry import ActionRegistry
from bough.store.due_operations import NO_SATURATED_PROJECTS, SaturatedProjects
from bough.store.store import Store

LEASE_DURATION = timedelta(seconds=12)

logger = log.get_logger(component="operations")


class Leases:
    def __init__(self, store: Store, actions: ActionRegistry) -> None:
        self._store = store
        self._actions = actions
        self._fences: dict[OperationId, int] = {}  # of the operations that run here
        self._suspects: set[OperationId] = set()  # those of them during which the control process has died before

    async def take_over(self) -> None:
        """Expire the leases of the previous control process.

        After an orderly stop, operations that were set aside are tried again: the restart or upgrade may have removed
        the cause.
        """
        async with self._store.transaction() as rows:
            if await rows.operations.expire_leases():
                return
            now = clock.now()
            for operation in await rows.operations.list_set_aside(crashes.MAX_CRASHES):
                await rows.operations.save(replace(operation, due_at=now))

    async def lease_next(
        self, *, lane: Lane | None = None, excluding: SaturatedProjects = NO_SATURATED_PROJECTS
    ) -> Operation | None:
        below = self._crashes_below
        async with self._store.read() as rows:  # reading first avoids the write lock when nothing is due
            found = await rows.operations.get_next_due(clock.now(), lane=lane, excluding=excluding, crashes_below=below)
        if found is None:
            return None
        async with self._store.transaction(durable=False) as rows:
            while True:
                now = clock.now()
                found = await rows.operations.get_next_due(now, lane=lane, excluding=excluding, crashes_below=below)
                if found is None:
                    return None
                if found.lease_until is None:
                    return await rows.operations.lease(found, now + LEASE_DURATION, now)
                await rows.operations.save(self._record_crash(found))

    async def find_next_due_time(self, lane: Lane | None, excluding: SaturatedProjects) -> datetime | None:
        async with self._store.read() as rows:
            return await rows.operations.get_next_due_time(
                lane=lane, excluding=excluding, crashes_below=self._crashes_below
            )

    def track(self, operation: Operation) -> None:
        """Remember an operation that runs here, until `untrack` or `release_all`."""
        self._fences[operation.id] = operation.fence
        if crashes.is_suspect(operation):
            self._suspects.add(operation.id)

    def untrack(self, operation_id: OperationId, *, is_cancelled: bool) -> None:
        """The leases of cancelled operations are released after all of them have ended."""
        self._suspects.discard(operation_id)
        if not is_cancelled:
            self._fences.pop(operation_id, None)

    async def renew(self, operation: Operation, worker: asyncio.Task[None] | None) -> None:
        """Renew the lease until cancelled. Cancel the worker when the lease is lost."""
        while True:
            await asyncio.sleep(LEASE_DURATION.total_seconds() / 3)
            async with self._store.transaction(durable=False) as rows:
                is_held = await rows.operations.renew_lease(operation.id, operation.fence, clock.now() + LEASE_DURATION)
            if not is_held and worker is not None:
                worker.cancel()
                return

    async def release_all(self) -> None:
        """Release all leases, so that an orderly stop does not count as a crash."""
        with suppress(PlatformError):
            async with self._store.transaction(durable=False) as rows:
                for operation_id, fence in self._fences.items():
                    await rows.operations.release_lease(operation_id, fence)

    @property
    def _crashes_below(self) -> int | None:
        """While an operation runs that may have crashed the control process, no other such operation starts."""
        return crashes.SUSPECT_CRASHES if self._suspects else None

    def _record_crash(self, operation: Operation) -> Operation:
        """The lease expired: the control process that held it has died, or could not decode the operation."""
        counted = crashes.record_crash(
            operation,
            clock.now(),
            can_undo=self._actions.can_undo(operation),
            can_decode=self._actions.can_decode(operation),
        )
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
