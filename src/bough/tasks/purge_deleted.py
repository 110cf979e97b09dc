"""Projects whose window of recovery is over are removed for good, a few at a time."""

from bough import clock
from bough.control.recording import Record
from bough.domain.audit import PLATFORM
from bough.domain.operation import OperationAction, Reach, Touch
from bough.domain.project import Project
from bough.errors import Busy
from bough.ids import ProjectId
from bough.operations.action import Wish
from bough.operations.queue import Queue
from bough.store.audit import AuditQuestion
from bough.store.store import Rows, Store

AT_ONCE = 20
ACTION = "purge_project"
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
        for project in due:
            await self._purge(project.id)
        return f"removing {len(due)} deleted projects for good" if due else ""

    async def _purge(self, project_id: ProjectId) -> None:
        try:
            async with self._queue.turn(Touch(reach=Reach.PROJECT, project_id=project_id)) as rows:
                project = await rows.projects.get(project_id)
                if project is None or project.deleted_at is None or project.is_recoverable(clock.now()):
                    return  # someone recovered it meanwhile
                for branch in await rows.branches.every_of(project_id):
                    wish = Wish(OperationAction.DELETE_TIMELINE, project_id, branch.id)
                    await self._queue.enqueue(rows, [wish], request_id=REQUEST_ID)
                await _note(rows, project)
        except Busy:
            return  # the next beat tries again


async def _note(rows: Rows, project: Project) -> None:
    """Once, however often its work is tried."""
    if await rows.audit.page(AuditQuestion(project_id=project.id, action=ACTION), 1, None):
        return
    record = Record(PLATFORM, ACTION, address="", request_id=REQUEST_ID)
    record.about(org_id=project.org_id, project_id=project.id, name=project.name)
    await record.write(rows)
