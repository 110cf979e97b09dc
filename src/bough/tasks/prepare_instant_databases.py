"""Keeps a few prepared databases while instant databases are in demand, so that creating one only assigns it.

A prepared database is complete and running, with role and password, but not assigned to an instant id yet. It is a
normal project in the organization of unclaimed databases.
"""

from datetime import datetime, timedelta

from bough import clock
from bough.control.audit import AuditRecord
from bough.control.instant.unclaimed import create_unclaimed_context, plan_instant_project
from bough.control.projects import projects
from bough.control.projects.projects import add_project
from bough.control.services import Services
from bough.domain.audit import PLATFORM
from bough.domain.endpoint import EndpointState
from bough.domain.instant_database import REGION
from bough.domain.locks import LockScope
from bough.errors import Busy, PlatformError
from bough.ids import ProjectId
from bough.store.prepared_databases import PreparedDatabase

DEMAND_WINDOW = timedelta(hours=1)  # since the last creation
REQUEST_ID = "prepare-instant"
_RETRY_SECONDS = 30.0


class PrepareInstantDatabases:
    interval = 0.25

    def __init__(self, services: Services) -> None:
        self._services = services
        self._pause_until = 0.0

    async def run(self) -> str:
        """Add or remove one database, if the pool has too few or too many."""
        async with self._services.store.read() as rows:
            prepared = await rows.prepared_databases.list_all()
            target_size = (
                self._services.settings.instant_pool
                if _is_recent(await rows.prepared_databases.get_last_created_at())
                else 0
            )
        stopped = next((each for each in prepared if each.target_state is not EndpointState.ACTIVE), None)
        if stopped is not None:  # it failed to start, or was suspended by a shutdown
            self._pause()
        if stopped is not None or len(prepared) > target_size:
            await self._retire(stopped or prepared[0])
            return "removing a prepared database"
        if len(prepared) < target_size and self._can_prepare():
            await self._prepare()
        return ""

    def _can_prepare(self) -> bool:
        """Return False while a caller waits for a database, because callers have priority."""
        if self._services.creation_limits.is_busy or clock.monotonic() < self._pause_until:
            return False
        return self._services.engine.capabilities().creation_blocked_reason is None

    def _pause(self) -> None:
        self._pause_until = clock.monotonic() + _RETRY_SECONDS

    async def _prepare(self) -> None:
        context = await create_unclaimed_context(
            self._services, AuditRecord(PLATFORM, "", address="", request_id=REQUEST_ID)
        )
        context.audit.discard()  # the audit records its assignment instead
        project_id = ProjectId.new()
        try:
            async with context.locked_transaction(LockScope.project(project_id)) as rows:
                created = await add_project(
                    context, rows, project_id, plan_instant_project(), context.principal.default_organization()
                )
                await rows.prepared_databases.add(project_id, created.endpoint.id)
        except PlatformError:
            self._pause()
            raise
        await context.services.hostnames.publish(created.endpoint.id, REGION)

    async def _retire(self, prepared: PreparedDatabase) -> None:
        """Delete the database, unless it is assigned first."""
        queue = self._services.queue
        try:
            async with queue.locked_transaction(LockScope.project(prepared.project_id), can_wait=False) as rows:
                is_unassigned = await rows.prepared_databases.remove(prepared.project_id)
                project = await rows.projects.get(prepared.project_id)
                if is_unassigned and project is not None:
                    _, suspends = await projects.delete_project_rows(rows, project, recoverable_seconds=0)
                    await queue.enqueue(rows, suspends, request_id=REQUEST_ID)
        except Busy:
            return  # the next run tries again


def _is_recent(moment: datetime | None) -> bool:
    return moment is not None and clock.now() - moment < DEMAND_WINDOW
