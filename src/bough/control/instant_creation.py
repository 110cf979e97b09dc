"""Creating an instant database: one that was prepared gets its id, or else a new one is made while the caller waits."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bough import clock, log
from bough.control.claim_links import purpose
from bough.control.desk import Desk
from bough.control.instant_databases import ShownInstantDatabase, shown
from bough.control.parts import Parts
from bough.control.prepared_databases import new_project, nobodys_desk
from bough.control.projects import Projects
from bough.control.recording import Record
from bough.control.seeding import password_purpose
from bough.domain import database as databases
from bough.domain import role as roles
from bough.domain.connection_uri import connection_uri
from bough.domain.instant_database import PG_VERSION, REGION, InstantDatabase
from bough.domain.operation import Reach, Touch
from bough.errors import Denied, PlatformError, RuleBroken, Taken, Unavailable
from bough.ids import EndpointId, InstantId, ProjectId
from bough.store.queries import Duplicate
from bough.store.store import Rows

_LOOPBACK = ("127.", "::1", "localhost")

logger = log.get(room="control")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewInstantDatabase:
    ref: str
    logical_replication: bool = False
    id: InstantId | None = None  # the caller's own choice


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    database: InstantDatabase
    endpoint_id: EndpointId
    password: str


class _NonePrepared(Exception):
    """Nothing was changed."""


class InstantCreation:
    def __init__(self, parts: Parts, record: Record) -> None:
        self._parts = parts
        self._record = record

    async def create(self, wish: NewInstantDatabase) -> ShownInstantDatabase:
        """It accepts connections when this is over. All of it is there, or nothing."""
        self._check_is_possible()
        self._parts.creation_limits.take(self._record.address)
        desk = await nobodys_desk(self._parts, self._record)
        desk.check_makes_new()
        desk.record.about(ref=wish.ref)
        instant_id = wish.id or InstantId.made_at(clock.now())
        made = None if wish.logical_replication else await self._take(desk, instant_id, wish)
        if made is None:
            async with self._parts.creation_limits.turn():
                made = await self._make(desk, instant_id, wish)
        uri = connection_uri(
            role=roles.DEFAULT_NAME,
            password=made.password,
            host=self._parts.hosts.pooled(made.endpoint_id, REGION),
            database=databases.DEFAULT_NAME,
        )
        return shown(self._parts.settings, instant_id, made.database, uri)

    async def _take(self, desk: Desk, instant_id: InstantId, wish: NewInstantDatabase) -> _Made | None:
        """One that was prepared, which is as good as done; None when there is none."""
        try:
            async with desk.transaction() as rows:
                now = clock.now()
                found = await rows.prepared_databases.take(roles.DEFAULT_NAME, now)
                if found is None or found.sealed_password is None:
                    raise _NonePrepared
                desk.record.about(org_id=desk.principal.home().id, project_id=found.project_id)
                database = await self._add(rows, instant_id, found.project_id, now, wish)
        except _NonePrepared:
            return None
        password = self._parts.vault.open(found.sealed_password, password_purpose(found.branch_id, roles.DEFAULT_NAME))
        made = _Made(database=database, endpoint_id=found.endpoint_id, password=password)
        await self._until_ready(made)
        return made

    async def _make(self, desk: Desk, instant_id: InstantId, wish: NewInstantDatabase) -> _Made:
        project_id = ProjectId.new()
        async with desk.turn(Touch(reach=Reach.PROJECT, project_id=project_id)) as rows:
            try:
                created = await Projects(desk).add(
                    rows,
                    project_id,
                    new_project(logical_replication=wish.logical_replication),
                    desk.principal.home(),
                )
            except RuleBroken:
                raise Unavailable(
                    "There are as many unclaimed databases as this installation has room for. Try again later: "
                    "those that nobody claims are deleted."
                ) from None
            database = await self._add(rows, instant_id, project_id, created.project.created_at, wish)
        await desk.names.announce(created.endpoint.id, REGION)
        made = _Made(database=database, endpoint_id=created.endpoint.id, password=created.password)
        await self._until_ready(made)
        return made

    async def _add(
        self, rows: Rows, instant_id: InstantId, project_id: ProjectId, now: datetime, wish: NewInstantDatabase
    ) -> InstantDatabase:
        digest = self._parts.keys.digest(instant_id)
        database = InstantDatabase(
            digest=digest,
            sealed_id=self._parts.vault.seal(instant_id, purpose(digest)),
            project_id=project_id,
            ref=wish.ref,
            created_at=now,
            updated_at=now,
            expires_at=now + timedelta(hours=self._parts.settings.instant_hours),
        )
        try:
            await rows.instant_databases.add(database)
        except Duplicate:
            raise Taken("This id cannot be used.") from None
        return database

    async def _until_ready(self, made: _Made) -> None:
        """What cannot be started is no database: it expires at once."""
        try:
            await self._parts.wakes.wake(made.endpoint_id)
        except PlatformError as error:
            logger.warning("instant_database_not_started", endpoint_id=made.endpoint_id, reason=error.public)
            async with self._parts.store.transaction() as rows:
                await rows.instant_databases.save(replace(made.database, expires_at=clock.now()))
            raise Unavailable(
                f"The database could not be started, so it was taken back: {error.public} Try again in a moment."
            ) from error

    def _check_is_possible(self) -> None:
        settings, able = self._parts.settings, self._parts.engine.capabilities()
        if settings.region(REGION) is None:
            raise Unavailable(f"Instant databases live in the region {REGION}, which this installation has not.")
        if PG_VERSION not in able.installs:
            raise Unavailable(f"Instant databases run Postgres {PG_VERSION}, which is not installed here.")
        if not able.isolation and not settings.listen.startswith(_LOOPBACK):
            raise Denied(
                "Bough runs here as an ordinary user, so databases are not kept apart from one another; then strangers "
                "get none. Run it as root, or let it listen on loopback."
            )
