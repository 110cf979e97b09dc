"""Deletes expired snapshots in the same way as a user does."""

from bough import clock
from bough.control.audit import write_platform_record
from bough.control.restores import snapshots
from bough.domain.snapshot import Snapshot
from bough.errors import Busy
from bough.operations.queue import OperationQueue
from bough.store.store import Store

BATCH_SIZE = 50
REQUEST_ID = "expire-snapshots"


class ExpireSnapshots:
    interval = 1.0

    def __init__(self, store: Store, queue: OperationQueue) -> None:
        self._store = store
        self._queue = queue

    async def run(self) -> str:
        async with self._store.read() as rows:
            due = await rows.snapshots.list_expired(clock.now(), BATCH_SIZE)
        count = sum([await self._expire(snapshot) for snapshot in due])
        return f"deleting {count} expired snapshots" if count else ""

    async def _expire(self, snapshot: Snapshot) -> bool:
        operation = snapshots.plan_delete(snapshot.project_id, snapshot.id)
        try:
            async with self._queue.locked_transaction(operation.lock, can_wait=False) as rows:
                fresh = await rows.snapshots.get(snapshot.project_id, snapshot.id)
                if fresh is None or fresh.deleted_at or fresh.expires_at is None or fresh.expires_at > clock.now():
                    return False  # its expiration was changed
                await snapshots.mark_deleted(rows, fresh)
                await self._queue.enqueue(rows, [operation], request_id=REQUEST_ID)
                await write_platform_record(
                    rows,
                    "expire_snapshot",
                    request_id=REQUEST_ID,
                    project_id=fresh.project_id,
                    resource=fresh.id,
                    name=fresh.name,
                )
        except Busy:
            return False  # it is being restored; the next run tries again
        return True
