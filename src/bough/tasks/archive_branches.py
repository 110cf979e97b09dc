"""Archives unused branches. They are unarchived on their next use."""

from datetime import timedelta

from bough import clock
from bough.config import Settings
from bough.control.audit import write_platform_record
from bough.domain.archive_policy import ArchivePolicy, should_archive
from bough.domain.branch import Branch
from bough.engine.port import EngineInspection
from bough.errors import Busy
from bough.ids import BranchId
from bough.operations.action import NewOperation
from bough.operations.actions.archive_branch import ArchiveBranch
from bough.operations.queue import OperationQueue
from bough.store.store import Rows, Store

CONCURRENCY = 2  # packing needs a full core and much disk bandwidth
REQUEST_ID = "archive-branches"
_RETRY_SECONDS = 3600.0  # after a failed attempt


class ArchiveBranches:
    interval = 60.0

    def __init__(self, settings: Settings, store: Store, engine: EngineInspection, queue: OperationQueue) -> None:
        self._policy = ArchivePolicy(
            min_age=timedelta(days=settings.archive_branch_days), min_idle=timedelta(hours=settings.archive_idle_hours)
        )
        self._store = store
        self._engine = engine
        self._queue = queue
        self._retry_at: dict[BranchId, float] = {}

    async def run(self) -> str:
        if self._engine.capabilities().creation_blocked_reason is not None:
            return ""  # archiving a branch first needs additional disk space
        now = clock.now()
        self._retry_at = {each: until for each, until in self._retry_at.items() if until > clock.monotonic()}
        async with self._store.read(slow=True) as rows:
            free_slots = CONCURRENCY - await rows.operations.count_open_by_kind(ArchiveBranch.kind)
            due = await rows.unused_branches.list_due_for_archiving(
                created_before=now - self._policy.min_age,
                used_since=now - self._policy.min_idle,
                limit=CONCURRENCY + len(self._retry_at),
            )
        candidates = [branch for branch in due if branch.id not in self._retry_at]
        count = sum([await self._archive(branch) for branch in candidates[: max(0, free_slots)]])
        return f"archiving {count} unused branches" if count else ""

    async def _archive(self, branch: Branch) -> bool:
        operation = NewOperation(ArchiveBranch, branch.project_id, branch.id)
        try:
            async with self._queue.locked_transaction(operation.lock, can_wait=False) as rows:
                if not await self._is_due(rows, branch):
                    return False  # it was used in the meantime
                await self._queue.enqueue(rows, [operation], request_id=REQUEST_ID)
                await write_platform_record(
                    rows,
                    "archive_branch",
                    request_id=REQUEST_ID,
                    project_id=branch.project_id,
                    resource=branch.id,
                    name=branch.name,
                )
        except Busy:
            return False  # the next run tries again
        self._retry_at[branch.id] = clock.monotonic() + _RETRY_SECONDS
        return True

    async def _is_due(self, rows: Rows, branch: Branch) -> bool:
        fresh = await rows.branches.get(branch.project_id, branch.id)
        project = await rows.projects.get(branch.project_id)
        if fresh is None or project is None or project.deleted_at is not None:
            return False
        endpoints = await rows.endpoints.list_with_deleted(branch.id)
        has_children = await rows.unused_branches.has_unarchived_children(branch.id)
        return should_archive(fresh, endpoints, self._policy, clock.now(), has_unarchived_children=has_children)
