"""What was changed in roles and databases with SQL is read from the computes that were in use, a moment later.

One that was not seen running before is read too: it may have crashed before it could be read.
"""

from dataclasses import dataclass

from bough import clock, log
from bough.control.gateway.activity import EndpointActivity
from bough.domain.endpoint import Endpoint
from bough.engine.port import EngineInspection
from bough.errors import Busy
from bough.ids import EndpointId, ProjectId
from bough.operations import contents_sync
from bough.operations.action import NewOperation
from bough.operations.actions.apply_config import ApplyConfig
from bough.operations.contents_sync import ContentsInspection, PlanLookup
from bough.operations.queue import OperationQueue
from bough.postgres.pg_hba import ROLE_PATTERNS_SINCE
from bough.store.store import Store
from bough.tasks.inspections import InspectionPool
from bough.tasks.round_robin import interleave_by_project

CONCURRENCY = 4
BATCH_SIZE = 50  # in one go: each is a session of its own

logger = log.get_logger(component="tasks")


@dataclass(frozen=True, slots=True)
class _UnreadEndpoint:
    id: EndpointId
    project_id: ProjectId


class ReadContents:
    interval = 2.0

    def __init__(
        self,
        store: Store,
        engine: EngineInspection,
        queue: OperationQueue,
        activity: EndpointActivity,
        plans: PlanLookup | None = None,
    ) -> None:
        self._store = store
        self._engine = engine
        self._queue = queue
        self._activity = activity
        self._plans = plans
        self._beyond: dict[EndpointId, tuple[int, int]] = {}  # roles and databases beyond the limit, as was told
        self._known: frozenset[EndpointId] = frozenset()
        self._read: dict[EndpointId, float] = {}
        self._inspections: InspectionPool[_UnreadEndpoint] = InspectionPool(
            CONCURRENCY, self._read_one, lambda each: activity.mark_unread([each.id])
        )

    async def run(self) -> str:
        changed = await self._inspections.run_while_due(self._due, self.interval)
        return f"roles or databases of {changed} endpoints changed" if changed else ""

    async def _due(self) -> list[_UnreadEndpoint]:
        async with self._store.read() as rows:
            active = await rows.endpoints.get_active_projects()
        unread = (self._activity.take_unread() | (active.keys() - self._known)) & active.keys()
        due = sorted(filter(self._inspections.can_inspect, unread), key=self._read_at)
        due = interleave_by_project(due, active.__getitem__)[:BATCH_SIZE]
        self._known = frozenset(active)
        self._activity.mark_unread(unread - set(due))
        self._beyond = {endpoint_id: beyond for endpoint_id, beyond in self._beyond.items() if endpoint_id in active}
        self._read = {endpoint_id: at for endpoint_id, at in self._read.items() if endpoint_id in active}
        return [_UnreadEndpoint(endpoint_id, active[endpoint_id]) for endpoint_id in due]

    def _read_at(self, endpoint_id: EndpointId) -> float:
        """When it was read last: those that wait longest come first."""
        return self._read.get(endpoint_id, 0.0)

    async def _read_one(self, due: _UnreadEndpoint) -> bool:
        endpoint_id = due.id
        self._read[endpoint_id] = clock.monotonic()
        async with self._store.read() as rows:
            endpoint = await rows.endpoints.get_live(endpoint_id)
        if endpoint is None:
            return False
        seen = await contents_sync.inspect_contents(self._store, self._engine, endpoint, self._plans)
        if seen is None:
            self._activity.mark_unread([endpoint_id])  # until it can be asked, or sleeps
            return False
        self._warn_beyond_limit(endpoint_id, seen)
        if not seen.has_changes:
            return False
        async with self._store.transaction() as rows:
            is_written = await contents_sync.sync_rows(rows, seen)
            replicas = [
                each for each in await rows.endpoints.list_in_branch(endpoint.branch_id) if each.is_running_replica
            ]
        if not is_written:
            self._activity.mark_unread([endpoint_id])
            return False
        for each in (endpoint, *replicas):
            self._activity.invalidate(each.id)
            await self._rewrite_hba(each, seen)
        return True

    def _warn_beyond_limit(self, endpoint_id: EndpointId, seen: ContentsInspection) -> None:
        beyond = (seen.actual.unlisted_roles, seen.actual.unlisted_databases)
        if beyond != self._beyond.get(endpoint_id, (0, 0)):
            logger.warning("contents_beyond_limit", endpoint_id=endpoint_id, roles=beyond[0], databases=beyond[1])
        self._beyond[endpoint_id] = beyond

    async def _rewrite_hba(self, endpoint: Endpoint, seen: ContentsInspection) -> None:
        """Where the server's files name every role, new ones cannot enter before they are written anew."""
        async with self._store.read() as rows:
            project = await rows.projects.get(endpoint.project_id)
        if project is None or project.pg_version >= ROLE_PATTERNS_SINCE or not seen.has_role_name_changes:
            return
        wish = NewOperation(ApplyConfig, endpoint.project_id, endpoint.branch_id, endpoint.id)
        try:
            async with self._queue.locked_transaction(wish.lock, can_wait=False) as rows:
                await self._queue.enqueue(rows, [wish], request_id="read-contents")
        except Busy:
            return  # whatever is under way writes the files, or the next start does
