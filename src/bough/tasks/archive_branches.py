"""Branches that nobody uses are archived: they come back by themselves when somebody does."""

from datetime import timedelta

from bough import clock
from bough.config import Settings
from bough.control.recording import Record
from bough.domain.archiving import Patience, is_due
from bough.domain.audit import PLATFORM
from bough.domain.branch import Branch
from bough.domain.operation import OperationAction
from bough.engine.port import Engine
from bough.errors import Busy
from bough.ids import BranchId
from bough.operations.action import Wish
from bough.operations.queue import Queue
from bough.store.store import Rows, Store

AT_ONCE = 2  # a pack takes a processor and much of the disk's time
REQUEST_ID = "archive-branches"
_AGAIN = 3600.0  # seconds until one is tried again that was tried in vain


class ArchiveBranches:
    every = 60.0

    def __init__(self, settings: Settings, store: Store, engine: Engine, queue: Queue) -> None:
        self._patience = Patience(
            age=timedelta(days=settings.archive_branch_days), idle=timedelta(hours=settings.archive_idle_hours)
        )
        self._store = store
        self._engine = engine
        self._queue = queue
        self._tried: dict[BranchId, float] = {}

    async def run(self) -> str:
        if self._engine.capabilities().refuses_new is not None:
            return ""  # before a branch takes less room it takes more
        now = clock.now()
        self._tried = {each: until for each, until in self._tried.items() if until > clock.monotonic()}
        async with self._store.read(slow=True) as rows:
            room = AT_ONCE - await rows.operations.count_open_of(OperationAction.TIMELINE_ARCHIVE)
            due = await rows.unused_branches.due(
                created_before=now - self._patience.age,
                used_since=now - self._patience.idle,
                limit=AT_ONCE + len(self._tried),
            )
        waiting = [branch for branch in due if branch.id not in self._tried]
        count = sum([await self._archive(branch) for branch in waiting[: max(0, room)]])
        return f"archiving {count} branches that nobody uses" if count else ""

    async def _archive(self, branch: Branch) -> bool:
        wish = Wish(OperationAction.TIMELINE_ARCHIVE, branch.project_id, branch.id)
        try:
            async with self._queue.turn(wish.touch, patient=False) as rows:
                if not await self._is_due(rows, branch):
                    return False  # somebody uses it meanwhile
                await self._queue.enqueue(rows, [wish], request_id=REQUEST_ID)
                await _note(rows, branch)
        except Busy:
            return False  # the next beat tries again
        self._tried[branch.id] = clock.monotonic() + _AGAIN
        return True

    async def _is_due(self, rows: Rows, branch: Branch) -> bool:
        fresh = await rows.branches.get(branch.project_id, branch.id)
        project = await rows.projects.get(branch.project_id)
        if fresh is None or project is None or project.deleted_at is not None:
            return False
        endpoints = await rows.endpoints.every_of(branch.id)
        has_children = await rows.unused_branches.has_unarchived_children(branch.id)
        return is_due(fresh, endpoints, self._patience, clock.now(), has_unarchived_children=has_children)


async def _note(rows: Rows, branch: Branch) -> None:
    project = await rows.projects.get(branch.project_id)
    record = Record(PLATFORM, "archive_branch", address="", request_id=REQUEST_ID, thing=branch.id)
    record.about(org_id=project.org_id if project else None, project_id=branch.project_id, name=branch.name)
    await record.write(rows)
