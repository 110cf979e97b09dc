"""Projects and branches whose window of recovery is over are removed for good, a few at a time."""

from bough import clock
from bough.control.deletions import data_goes
from bough.control.recording import Record
from bough.domain.audit import PLATFORM
from bough.domain.branch import Branch
from bough.domain.operation import Reach, Touch
from bough.domain.project import Project
from bough.errors import Busy
from bough.ids import BranchId, ProjectId
from bough.operations.queue import Queue
from bough.store.audit import AuditQuestion
from bough.store.store import Rows, Store

AT_ONCE = 20
ACTION = "purge_project"
BRANCH_ACTION = "purge_branch"
REQUEST_ID = "purge-deleted"


class PurgeDeleted:
    every = 5.0

    def __init__(self, store: Store, queue: Queue) -> None:
        self._store = store
        self._queue = queue

    async def run(self) -> str:
        async with self._store.read() as rows:
            due = await rows.projects.past_recovery(clock.now(), AT_ONCE)
            due = [project for project in due if not await rows.operations.open_of(project.id)]
            branches = await rows.branches.past_recovery(clock.now(), AT_ONCE)
        for project in due:
            await self._purge(project.id)
        count = sum([await self._purge_branch(branch) for branch in branches])
        told = [f"{len(due)} deleted projects"] * bool(due) + [f"{count} deleted branches"] * bool(count)
        return f"removing {' and '.join(told)} for good" if told else ""

    async def _purge(self, project_id: ProjectId) -> None:
        """Children first: a volume cannot go while another's history stands on it."""
        try:
            async with self._queue.turn(Touch(reach=Reach.PROJECT, project_id=project_id)) as rows:
                project = await rows.projects.get(project_id)
                if project is None or project.deleted_at is None or project.is_recoverable(clock.now()):
                    return  # someone recovered it meanwhile
                for branch in _leaves_first(await rows.branches.every_of(project_id)):
                    await self._queue.enqueue(rows, [data_goes(branch, with_project=True)], request_id=REQUEST_ID)
                await _note(rows, project)
        except Busy:
            return  # the next beat tries again

    async def _purge_branch(self, branch: Branch) -> bool:
        """From now on it cannot be recovered."""
        touch = Touch(reach=Reach.BRANCH, project_id=branch.project_id, branch_id=branch.id)
        try:
            async with self._queue.turn(touch, patient=False) as rows:
                fresh = await rows.branches.get(branch.project_id, branch.id)
                if fresh is None or fresh.recoverable_until is None or fresh.recoverable_until > clock.now():
                    return False  # somebody recovered it meanwhile
                await rows.branches.end_recovery(fresh.id)
                await self._queue.enqueue(rows, [data_goes(fresh)], request_id=REQUEST_ID)
                await _note_branch(rows, fresh)
        except Busy:
            return False  # the next beat tries again
        return True


def _leaves_first(branches: list[Branch]) -> list[Branch]:
    parents = {branch.id: branch.parent_id for branch in branches}

    def depth(branch_id: BranchId | None) -> int:
        """Of a circle, which there is none of, not without end."""
        count = 0
        while branch_id is not None and count <= len(parents):
            branch_id, count = parents.get(branch_id), count + 1
        return count

    return sorted(branches, key=lambda branch: depth(branch.id), reverse=True)


async def _note(rows: Rows, project: Project) -> None:
    """Once, however often its work is tried."""
    if await rows.audit.page(AuditQuestion(project_id=project.id, action=ACTION), 1, None):
        return
    record = Record(PLATFORM, ACTION, address="", request_id=REQUEST_ID)
    record.about(org_id=project.org_id, project_id=project.id, name=project.name)
    await record.write(rows)


async def _note_branch(rows: Rows, branch: Branch) -> None:
    project = await rows.projects.get(branch.project_id)
    record = Record(PLATFORM, BRANCH_ACTION, address="", request_id=REQUEST_ID, thing=branch.id)
    record.about(org_id=project.org_id if project else None, project_id=branch.project_id, name=branch.name)
    await record.write(rows)
