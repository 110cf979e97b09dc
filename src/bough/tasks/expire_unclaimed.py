"""Deletes instant databases that were not claimed in time, and the rows of those already purged."""

from bough import clock
from bough.control.audit import write_platform_record
from bough.control.gateway.activity import EndpointActivity
from bough.control.projects import projects
from bough.domain.instant_database import UNCLAIMED_ORGANIZATION, InstantDatabase
from bough.domain.locks import LockScope
from bough.errors import Busy
from bough.ids import ProjectId
from bough.operations.queue import OperationQueue
from bough.store.store import Store

BATCH_SIZE = 50
REQUEST_ID = "expire-unclaimed"


class ExpireUnclaimed:
    interval = 5.0

    def __init__(self, store: Store, queue: OperationQueue, activity: EndpointActivity) -> None:
        self._store = store
        self._queue = queue
        self._activity = activity

    async def run(self) -> str:
        async with self._store.read() as rows:
            due = await rows.instant_databases.list_expired(clock.now(), BATCH_SIZE)
            purged = await rows.projects.list_purged(UNCLAIMED_ORGANIZATION, BATCH_SIZE)
        count = sum([await self._expire(each) for each in due])
        for project_id in purged:
            await self._delete_rows(project_id)
        return f"deleting {count} unclaimed databases" if count else ""

    async def _expire(self, database: InstantDatabase) -> bool:
        """Delete the project without a recovery window, so that the next purge removes it."""
        try:
            async with self._queue.locked_transaction(LockScope.project(database.project_id), can_wait=False) as rows:
                now = clock.now()
                fresh = await rows.instant_databases.get(database.digest)
                project = await rows.projects.get(database.project_id)
                if fresh is None or not fresh.is_expired(now) or project is None or project.deleted_at is not None:
                    return False  # it is being claimed or is deleted already
                _, suspends = await projects.delete_project_rows(rows, project, recoverable_seconds=0)
                await self._queue.enqueue(rows, suspends, request_id=REQUEST_ID)
                await write_platform_record(
                    rows, "expire_instant_database", request_id=REQUEST_ID, project_id=project.id, ref=fresh.ref
                )
        except Busy:
            return False  # the next run tries again
        for suspend in suspends:
            if suspend.endpoint_id is not None:
                self._activity.invalidate(suspend.endpoint_id)
        return True

    async def _delete_rows(self, project_id: ProjectId) -> None:
        try:
            async with self._queue.locked_transaction(LockScope.project(project_id), can_wait=False) as rows:
                await rows.consumption.delete_project(project_id)
                await rows.projects.delete(project_id)
        except Busy:
            return  # the purging operation is still running
