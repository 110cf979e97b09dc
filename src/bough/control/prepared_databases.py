"""Databases that wait to be somebody's: whole, running, with role and password, but without an id.

So a call that creates one has only to give it its id. They are kept while instant databases are in demand, and a few
at a time: each is a project like any other, in the organization of those that nobody claimed.
"""

from datetime import datetime, timedelta

from bough import clock
from bough.access.principal import Principal, memberships
from bough.control import projects
from bough.control.desk import Desk
from bough.control.parts import Parts
from bough.control.project_planning import NewProject
from bough.control.projects import Projects
from bough.control.recording import Record
from bough.domain.api_key import KeyKind
from bough.domain.audit import PLATFORM
from bough.domain.endpoint import EndpointState
from bough.domain.instant_database import PG_VERSION, REGION, UNCLAIMED_ORGANIZATION
from bough.domain.operation import Reach, Touch
from bough.domain.user import OPERATOR
from bough.errors import Busy, Internal, PlatformError
from bough.ids import ProjectId
from bough.store.prepared_databases import Prepared

IN_DEMAND = timedelta(hours=1)  # after somebody made one
REQUEST_ID = "prepare-instant"
_AFTER_TROUBLE = 30.0  # seconds


def new_project(*, logical_replication: bool = False) -> NewProject:
    """What every instant database is."""
    return NewProject(
        org_id=UNCLAIMED_ORGANIZATION,
        region_id=REGION,
        pg_version=PG_VERSION,
        settings={"enable_logical_replication": True} if logical_replication else {},
    )


async def nobodys_desk(parts: Parts, record: Record) -> Desk:
    """Somebody without an account acts for the organization that has what nobody claimed."""
    async with parts.store.read() as rows:
        organization = await rows.organizations.get(UNCLAIMED_ORGANIZATION)
    if organization is None:
        raise Internal("The organization of unclaimed databases is gone.")
    nobody = Principal(
        kind=KeyKind.ORGANIZATION,
        key_id=None,
        name="",
        user_id=OPERATOR,
        memberships=memberships([(organization, None)]),
    )
    return parts.desk(nobody, record)


class PreparedDatabases:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._pause_until = 0.0

    async def keep(self) -> str:
        """One step towards as many as there should be."""
        async with self._parts.store.read() as rows:
            waiting = await rows.prepared_databases.all()
            wanted = self._parts.settings.instant_pool if _is_recent(await rows.prepared_databases.last_wanted()) else 0
        lost = next((each for each in waiting if each.wished is not EndpointState.ACTIVE), None)
        if lost is not None:  # it could not be started, or slept with the whole platform
            self._pause()
        if lost is not None or len(waiting) > wanted:
            await self._retire(lost or waiting[0])
            return "removing a database that was prepared"
        if len(waiting) < wanted and self._may_prepare():
            await self._prepare()
        return ""

    def _may_prepare(self) -> bool:
        """Whoever waits for a database of their own comes first."""
        if self._parts.creation_limits.is_busy or clock.monotonic() < self._pause_until:
            return False
        return self._parts.engine.capabilities().refuses_new is None

    def _pause(self) -> None:
        self._pause_until = clock.monotonic() + _AFTER_TROUBLE

    async def _prepare(self) -> None:
        desk = await nobodys_desk(self._parts, Record(PLATFORM, "", address="", request_id=REQUEST_ID))
        desk.record.withdraw()  # the audit tells when somebody gets it
        project_id = ProjectId.new()
        try:
            async with desk.turn(Touch(reach=Reach.PROJECT, project_id=project_id)) as rows:
                created = await Projects(desk).add(rows, project_id, new_project(), desk.principal.home())
                await rows.prepared_databases.add(project_id, created.endpoint.id)
        except PlatformError:
            self._pause()
            raise
        await desk.names.announce(created.endpoint.id, REGION)

    async def _retire(self, prepared: Prepared) -> None:
        """Unless somebody gets it first."""
        queue = self._parts.queue
        try:
            async with queue.turn(Touch(reach=Reach.PROJECT, project_id=prepared.project_id), patient=False) as rows:
                waits = await rows.prepared_databases.remove(prepared.project_id)
                project = await rows.projects.get(prepared.project_id)
                if waits and project is not None:
                    _, rests = await projects.retire(rows, project, recoverable_seconds=0)
                    await queue.enqueue(rows, rests, request_id=REQUEST_ID)
        except Busy:
            return  # the next beat tries again


def _is_recent(moment: datetime | None) -> bool:
    return moment is not None and clock.now() - moment < IN_DEMAND
