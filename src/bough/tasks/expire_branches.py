"""Branches whose time is over are deleted, as their owner would delete them."""

from bough import clock, log
from bough.config import Settings
from bough.control import deletions
from bough.control.activity import Activity
from bough.control.recording import Record
from bough.domain.audit import PLATFORM
from bough.domain.branch import Branch
from bough.domain.operation import Reach, Touch
from bough.errors import Busy, RuleBroken
from bough.operations.queue import Queue
from bough.store.store import Rows, Store

AT_ONCE = 50
REQUEST_ID = "expire-branches"

logger = log.get(room="tasks")


class ExpireBranches:
    every = 1.0

    def __init__(self, settings: Settings, store: Store, queue: Queue, activity: Activity) -> None:
        self._recoverable_seconds = settings.recoverable_branch_seconds
        self._store = store
        self._queue = queue
        self._activity = activity

    async def run(self) -> str:
        async with self._store.read() as rows:
            due = await rows.branches.expired(clock.now(), AT_ONCE)
        count = sum([await self._expire(branch) for branch in due])
        return f"deleting {count} branches that expired" if count else ""

    async def _expire(self, branch: Branch) -> bool:
        touch = Touch(reach=Reach.BRANCH, project_id=branch.project_id, branch_id=branch.id)
        try:
            async with self._queue.turn(touch, patient=False) as rows:
                fresh = await rows.branches.get(branch.project_id, branch.id)
                if fresh is None or fresh.deleted_at or fresh.expires_at is None or fresh.expires_at > clock.now():
                    return False  # somebody gave it more time
                gone = await deletions.remove(rows, fresh, method="ttl", recoverable_seconds=self._recoverable_seconds)
                await self._queue.enqueue(rows, gone.wishes, request_id=REQUEST_ID)
                await _note(rows, fresh)
        except Busy:
            return False  # the next beat tries again
        except RuleBroken as error:
            logger.error("branch_not_expired", branch_id=branch.id, reason=error.public)
            return False
        for endpoint in gone.endpoints:
            self._activity.changed(endpoint.id)
        return True


async def _note(rows: Rows, branch: Branch) -> None:
    project = await rows.projects.get(branch.project_id)
    record = Record(PLATFORM, "expire_branch", address="", request_id=REQUEST_ID, thing=branch.id)
    record.about(org_id=project.org_id if project else None, project_id=branch.project_id, name=branch.name)
    await record.write(rows)
