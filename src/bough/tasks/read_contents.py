"""Reads the roles and databases of used computes shortly after use, to find changes made with SQL.

Also reads a compute that was not running before: it may have crashed before its changes were read.
"""

from bough import clock, log
from bough.control.gateway.activity import EndpointActivity
from bough.domain.endpoint import Endpoint
from bough.engine.port import EngineInspection
from bough.errors import Busy
from bough.ids import EndpointId
from bough.operations import contents_inspection, contents_sync
from bough.operations.action import NewOperation
from bough.operations.actions.apply_config import ApplyConfig
from bough.operations.contents_inspection import ContentsInspection, PlanLookup
from bough.operations.queue import OperationQueue
from bough.postgres.pg_hba import ROLE_PATTERNS_SINCE
from bough.store.store import Store
from bough.tasks.inspections import InspectedEndpoint, InspectionPool
from bough.tasks.round_robin import interleave_by_project

CONCURRENCY = 4
BATCH_SIZE = 50  # per run; each needs a session

logger = log.get_logger(component="tasks")


class ReadContents:
    interval = 2.0

    def __init__(
        self,
        store: Store,
        engine: EngineInspection,
        queue: OperationQueue,
        activity: EndpointActivity,
        get_plan: PlanLookup | None = None,
    ) -> None:
        self._store = store
        self._engine = engine
        self._queue = queue
        self._activity = activity
        self._get_plan = get_plan
        self._beyond: dict[EndpointId, tuple[int, int]] = {}  # roles and databases above the limit, as last logged
        self._known: frozenset[EndpointId] = frozenset()
        self._read: dict[EndpointId, float] = {}
        self._inspections: InspectionPool[InspectedEndpoint] = InspectionPool(
            CONCURRENCY, self._read_one, lambda each: activity.mark_unread([each.id])
        )

    async def run(self) -> str:
        changed = await self._inspections.run_while_due(self._find_due, self.interval)
        return f"the roles or databases of {changed} endpoints changed" if changed else ""

    async def _find_due(self) -> list[InspectedEndpoint]:
        async with self._store.read() as rows:
            active = await rows.endpoints.get_active_projects()
        unread = (self._activity.take_unread() | (active.keys() - self._known)) & active.keys()
        due = sorted(filter(self._inspections.can_inspect, unread), key=self._read_at)
        due = interleave_by_project(due, active.__getitem__)[:BATCH_SIZE]
        self._known = frozenset(active)
        self._activity.mark_unread(unread - set(due))
        self._beyond = {endpoint_id: beyond for endpoint_id, beyond in self._beyond.items() if endpoint_id in active}
        self._read = {endpoint_id: at for endpoint_id, at in self._read.items() if endpoint_id in active}
        return [InspectedEndpoint(endpoint_id, active[endpoint_id]) for endpoint_id in due]

    def _read_at(self, endpoint_id: EndpointId) -> float:
        """Return when it was read last; endpoints that waited longest come first."""
        return self._read.get(endpoint_id, 0.0)

    async def _read_one(self, due: InspectedEndpoint) -> bool:
        endpoint_id = due.id
        self._read[endpoint_id] = clock.monotonic()
        async with self._store.read() as rows:
            endpoint = await rows.endpoints.get_live(endpoint_id)
        if endpoint is None:
            return False
        inspection = await contents_inspection.inspect_contents(self._store, self._engine, endpoint, self._get_plan)
        if inspection is None:
            self._activity.mark_unread([endpoint_id])  # until it can be read or is suspended
            return False
        self._warn_beyond_limit(endpoint_id, inspection)
        if not inspection.has_changes:
            return False
        async with self._store.transaction() as rows:
            is_written = await contents_sync.sync_rows(rows, inspection)
            replicas = [
                each for each in await rows.endpoints.list_in_branch(endpoint.branch_id) if each.is_running_replica
            ]
        if not is_written:
            self._activity.mark_unread([endpoint_id])
            return False
        for each in (endpoint, *replicas):
            self._activity.invalidate(each.id)
            await self._rewrite_hba(each, inspection)
        return True

    def _warn_beyond_limit(self, endpoint_id: EndpointId, inspection: ContentsInspection) -> None:
        beyond = (inspection.actual.unlisted_roles, inspection.actual.unlisted_databases)
        if beyond != self._beyond.get(endpoint_id, (0, 0)):
            logger.warning("contents_beyond_limit", endpoint_id=endpoint_id, roles=beyond[0], databases=beyond[1])
        self._beyond[endpoint_id] = beyond

    async def _rewrite_hba(self, endpoint: Endpoint, inspection: ContentsInspection) -> None:
        """Before Postgres 16 pg_hba.conf lists every role, so new roles cannot connect until it is rewritten."""
        async with self._store.read() as rows:
            project = await rows.projects.get(endpoint.project_id)
        if project is None or project.pg_version >= ROLE_PATTERNS_SINCE or not inspection.has_role_name_changes:
            return
        operation = NewOperation.for_endpoint(ApplyConfig, endpoint)
        try:
            async with self._queue.locked_transaction(operation.lock, can_wait=False) as rows:
                await self._queue.enqueue(rows, [operation], request_id="read-contents")
        except Busy:
            return  # the running operation or the next start writes the files
