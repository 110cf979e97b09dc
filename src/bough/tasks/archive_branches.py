"""Branches that nobody uses are archived: they come back by themselves when somebody does."""

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

CONCURRENCY = 2  # a pack takes a processor and much of the disk's time
REQUEST_ID = "archive-branches"
_RETRY_SECONDS = 3600.0  # seconds until one is tried again that was tried in vain


class ArchiveBranches:
    interval = 60.0

    def __init__(self, settings: Settings, store: Store, engine: EngineInspection, queue: OperationQueue) -> None:
        self._policy = ArchivePolicy(
            min_age=timedelta(days=settings.archive_branch_days), min_idle=timedelta(hours=settings.archive_idle_hours)
        )
        self._store = store
        self._engine = engine
        self._queue = queue
        self._tried: dict[BranchId, float] = {}

    async def run(self) -> str:
        if self._engine.capabilities().creation_blocked_reason is not None:
            return ""  # before a branch takes less room it takes more
        now = clock.now()
        self._tried = {each: until for each, until in self._tried.items() if until > clock.monotonic()}
        async with self._store.read(slow=True) as rows:
            room = CONCURRENCY - await rows.operations.count_open_by_kind(ArchiveBranch.kind)
            due = await rows.unused_branches.list_due_for_archiving(
                created_before=now - self._policy.min_age,
                used_since=now - self._policy.min_idle,
                limit=CONCURRENCY + len(self._tried),
            )
        waiting = [branch for branch in due if branch.id not in self._tried]
        count = sum([await self._archive(branch) for branch in waiting[: max(0, room)]])
        return f"archiving {count} branches that nobody uses" if count else ""

    async def _archive(self, branch: Branch) -> bool:
        wish = NewOperation(ArchiveBranch, branch.project_id, branch.id)
        try:
            async with self._queue.locked_transaction(wish.lock, can_wait=False) as rows:
                if not await self._is_due(rows, branch):
                    return False  # somebody uses it meanwhile
                await self._queue.enqueue(rows, [wish], request_id=REQUEST_ID)
                await write_platform_record(
                    rows,
                    "archive_branch",
                    request_id=REQUEST_ID,
                    project_id=branch.project_id,
                    thing=branch.id,
                    name=branch.name,
                )
        except Busy:
            return False  # the next beat tries again
        self._tried[branch.id] = clock.monotonic() + _RETRY_SECONDS
        return True

    async def _is_due(self, rows: Rows, branch: Branch) -> bool:
        fresh = await rows.branches.get(branch.project_id, branch.id)
        project = await rows.projects.get(branch.project_id)
        if fresh is None or project is None or project.deleted_at is not None:
            return False
        endpoints = await rows.endpoints.list_with_deleted(branch.id)
        has_children = await rows.unused_branches.has_unarchived_children(branch.id)
        return should_archive(fresh, endpoints, self._policy, clock.now(), has_unarchived_children=has_children)
