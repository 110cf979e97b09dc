"""Purges projects and branches whose recovery window has ended, a few at a time."""

from bough import clock
from bough.control.audit import write_platform_record
from bough.control.branches.deletion import plan_data_deletion
from bough.domain.branch import Branch
from bough.domain.locks import LockLevel, LockScope
from bough.domain.project import Project
from bough.errors import Busy
from bough.ids import BranchId, ProjectId
from bough.operations.queue import OperationQueue
from bough.store.audit import AuditQuery
from bough.store.store import Rows, Store

BATCH_SIZE = 20
PROJECT_ACTION = "purge_project"
BRANCH_ACTION = "purge_branch"
REQUEST_ID = "purge-deleted"


class PurgeDeleted:
    interval = 5.0

    def __init__(self, store: Store, queue: OperationQueue) -> None:
        self._store = store
        self._queue = queue

    async def run(self) -> str:
        async with self._store.read() as rows:
            due = await rows.projects.list_past_recovery(clock.now(), BATCH_SIZE)
            due = [project for project in due if not await rows.operations.list_open(project.id)]
            branches = await rows.branches.list_past_recovery(clock.now(), BATCH_SIZE)
        for project in due:
            await self._purge(project.id)
        count = sum([await self._purge_branch(branch) for branch in branches])
        parts = [f"{len(due)} deleted projects"] * bool(due) + [f"{count} deleted branches"] * bool(count)
        return f"purging {' and '.join(parts)}" if parts else ""

    async def _purge(self, project_id: ProjectId) -> None:
        """Enqueue the deletion of all branches, children first: their history depends on their parents' volumes."""
        try:
            async with self._queue.locked_transaction(LockScope.project(project_id)) as rows:
                project = await rows.projects.get(project_id)
                if project is None or project.deleted_at is None or project.is_recoverable(clock.now()):
                    return  # it was recovered in the meantime
                for branch in _leaves_first(await rows.branches.list_with_deleted(project_id)):
                    await self._queue.enqueue(
                        rows, [plan_data_deletion(branch, with_project=True)], request_id=REQUEST_ID
                    )
                await _write_project_audit(rows, project)
        except Busy:
            return  # the next run tries again

    async def _purge_branch(self, branch: Branch) -> bool:
        """End the recovery window and enqueue the deletion of the data."""
        lock = LockScope(level=LockLevel.BRANCH, project_id=branch.project_id, branch_id=branch.id)
        try:
            async with self._queue.locked_transaction(lock, can_wait=False) as rows:
                fresh = await rows.branches.get(branch.project_id, branch.id)
                if fresh is None or fresh.recoverable_until is None or fresh.recoverable_until > clock.now():
                    return False  # it was recovered in the meantime
                await rows.branches.end_recovery(fresh.id)
                await self._queue.enqueue(rows, [plan_data_deletion(fresh)], request_id=REQUEST_ID)
                await write_platform_record(
                    rows,
                    BRANCH_ACTION,
                    request_id=REQUEST_ID,
                    project_id=fresh.project_id,
                    resource=fresh.id,
                    name=fresh.name,
                )
        except Busy:
            return False  # the next run tries again
        return True


def _leaves_first(branches: list[Branch]) -> list[Branch]:
    parents = {branch.id: branch.parent_id for branch in branches}

    def depth(branch_id: BranchId | None) -> int:
        """Return the depth; terminates even for a cycle, which should not exist."""
        count = 0
        while branch_id is not None and count <= len(parents):
            branch_id, count = parents.get(branch_id), count + 1
        return count

    return sorted(branches, key=lambda branch: depth(branch.id), reverse=True)


async def _write_project_audit(rows: Rows, project: Project) -> None:
    """Write the audit record once, even if the purge is repeated."""
    if await rows.audit.page(AuditQuery(project_id=project.id, action=PROJECT_ACTION), 1, None):
        return
    await write_platform_record(rows, PROJECT_ACTION, request_id=REQUEST_ID, project_id=project.id, name=project.name)
