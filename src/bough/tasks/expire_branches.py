"""Deletes expired branches in the same way as a user does."""

from bough import clock, log
from bough.config import Settings
from bough.control.audit import write_platform_record
from bough.control.branches import deletion
from bough.control.gateway.activity import EndpointActivity
from bough.domain.branch import Branch
from bough.domain.locks import LockLevel, LockScope
from bough.errors import Busy, RuleViolation
from bough.operations.queue import OperationQueue
from bough.store.store import Store

BATCH_SIZE = 50
REQUEST_ID = "expire-branches"

logger = log.get_logger(component="tasks")


class ExpireBranches:
    interval = 1.0

    def __init__(self, settings: Settings, store: Store, queue: OperationQueue, activity: EndpointActivity) -> None:
        self._recoverable_seconds = settings.recoverable_branch_seconds
        self._store = store
        self._queue = queue
        self._activity = activity

    async def run(self) -> str:
        async with self._store.read() as rows:
            due = await rows.branches.list_expired(clock.now(), BATCH_SIZE)
        count = sum([await self._expire(branch) for branch in due])
        return f"deleting {count} expired branches" if count else ""

    async def _expire(self, branch: Branch) -> bool:
        lock = LockScope(level=LockLevel.BRANCH, project_id=branch.project_id, branch_id=branch.id)
        try:
            async with self._queue.locked_transaction(lock, can_wait=False) as rows:
                fresh = await rows.branches.get(branch.project_id, branch.id)
                if fresh is None or fresh.deleted_at or fresh.expires_at is None or fresh.expires_at > clock.now():
                    return False  # its expiration was changed
                removal = await deletion.delete_branch_rows(
                    rows, fresh, method="ttl", recoverable_seconds=self._recoverable_seconds
                )
                await self._queue.enqueue(rows, removal.new_operations, request_id=REQUEST_ID)
                await write_platform_record(
                    rows,
                    "expire_branch",
                    request_id=REQUEST_ID,
                    project_id=fresh.project_id,
                    resource=fresh.id,
                    name=fresh.name,
                )
        except Busy:
            return False  # the next run tries again
        except RuleViolation as error:
            logger.error("branch_not_expired", branch_id=branch.id, reason=error.public_message)
            return False
        for endpoint in removal.endpoints:
            self._activity.invalidate(endpoint.id)
        return True
