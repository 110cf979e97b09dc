"""Creating an instant database: one that was prepared gets its id, or else a new one is made while the caller waits."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bough import clock, log
from bough.control.audit import AuditRecord
from bough.control.branches.new_rows import password_sealing_purpose
from bough.control.context import Context
from bough.control.instant.databases import InstantDatabaseDetails, describe_instant_database
from bough.control.instant.prepared import create_unclaimed_context, new_instant_project
from bough.control.platform.claim_links import sealing_purpose
from bough.control.projects.projects import Projects
from bough.control.services import Services
from bough.domain import database as databases
from bough.domain import role as roles
from bough.domain.connection_uri import build_connection_uri
from bough.domain.instant_database import PG_VERSION, REGION, InstantDatabase
from bough.domain.operation import LockLevel, LockScope
from bough.errors import Conflict, Denied, PlatformError, RuleViolation, Unavailable
from bough.ids import EndpointId, InstantId, ProjectId
from bough.store.queries import Duplicate
from bough.store.store import Rows

_LOOPBACK = ("127.", "::1", "localhost")

logger = log.get_logger(component="control")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewInstantDatabase:
    ref: str
    logical_replication: bool = False
    id: InstantId | None = None  # the caller's own choice


@dataclass(frozen=True, slots=True, kw_only=True)
class _StartedDatabase:
    database: InstantDatabase
    endpoint_id: EndpointId
    password: str


class _NonePrepared(Exception):
    """Nothing was changed."""


class InstantCreation:
    def __init__(self, services: Services, audit: AuditRecord) -> None:
        self._services = services
        self._audit = audit

    async def create(self, requested: NewInstantDatabase) -> InstantDatabaseDetails:
        """It accepts connections when this is over. All of it is there, or nothing."""
        self._check_supported()
        self._services.creation_limits.take(self._audit.address)
        desk = await create_unclaimed_context(self._services, self._audit)
        desk.check_can_create()
        desk.audit.add_details(ref=requested.ref)
        instant_id = requested.id or InstantId.new_at(clock.now())
        made = None if requested.logical_replication else await self._take(desk, instant_id, requested)
        if made is None:
            async with self._services.creation_limits.slot():
                made = await self._make(desk, instant_id, requested)
        uri = build_connection_uri(
            role=roles.DEFAULT_NAME,
            password=made.password,
            host=self._services.hosts.pooled_host(made.endpoint_id, REGION),
            database=databases.DEFAULT_NAME,
        )
        return describe_instant_database(self._services.settings, instant_id, made.database, uri)

    async def _take(self, desk: Context, instant_id: InstantId, wish: NewInstantDatabase) -> _StartedDatabase | None:
        """One that was prepared, which is as good as done; None when there is none."""
        try:
            async with desk.transaction() as rows:
                now = clock.now()
                found = await rows.prepared_databases.assign_next(roles.DEFAULT_NAME, now)
                if found is None or found.sealed_password is None:
                    raise _NonePrepared
                desk.audit.add_details(org_id=desk.principal.default_organization().id, project_id=found.project_id)
                database = await self._add(rows, instant_id, found.project_id, now, wish)
        except _NonePrepared:
            return None
        password = self._services.vault.open(
            found.sealed_password, password_sealing_purpose(found.branch_id, roles.DEFAULT_NAME)
        )
        made = _StartedDatabase(database=database, endpoint_id=found.endpoint_id, password=password)
        await self._until_ready(made)
        return made

    async def _make(self, desk: Context, instant_id: InstantId, wish: NewInstantDatabase) -> _StartedDatabase:
        project_id = ProjectId.new()
        async with desk.locked_transaction(LockScope(level=LockLevel.PROJECT, project_id=project_id)) as rows:
            try:
                created = await Projects(desk).add_project(
                    rows,
                    project_id,
                    new_instant_project(logical_replication=wish.logical_replication),
                    desk.principal.default_organization(),
                )
            except RuleViolation:
                raise Unavailable(
                    "There are as many unclaimed databases as this installation has room for. Try again later: "
                    "those that nobody claims are deleted."
                ) from None
            database = await self._add(rows, instant_id, project_id, created.project.created_at, wish)
        await desk.hostnames.publish(created.endpoint.id, REGION)
        made = _StartedDatabase(database=database, endpoint_id=created.endpoint.id, password=created.password)
        await self._until_ready(made)
        return made

    async def _add(
        self, rows: Rows, instant_id: InstantId, project_id: ProjectId, now: datetime, wish: NewInstantDatabase
    ) -> InstantDatabase:
        digest = self._services.keys.digest(instant_id)
        database = InstantDatabase(
            digest=digest,
            sealed_id=self._services.vault.seal(instant_id, sealing_purpose(digest)),
            project_id=project_id,
            ref=wish.ref,
            created_at=now,
            updated_at=now,
            expires_at=now + timedelta(hours=self._services.settings.instant_hours),
        )
        try:
            await rows.instant_databases.add(database)
        except Duplicate:
            raise Conflict("This id cannot be used.") from None
        return database

    async def _until_ready(self, made: _StartedDatabase) -> None:
        """What cannot be started is no database: it expires at once."""
        try:
            await self._services.wakes.wake(made.endpoint_id)
        except PlatformError as error:
            logger.warning("instant_database_not_started", endpoint_id=made.endpoint_id, reason=error.public_message)
            async with self._services.store.transaction() as rows:
                await rows.instant_databases.save(replace(made.database, expires_at=clock.now()))
            raise Unavailable(
                f"The database could not be started, so it was taken back: {error.public_message} Try again in a "
                "moment."
            ) from error

    def _check_supported(self) -> None:
        settings, able = self._services.settings, self._services.engine.capabilities()
        if settings.region(REGION) is None:
            raise Unavailable(f"Instant databases live in the region {REGION}, which this installation has not.")
        if PG_VERSION not in able.installs:
            raise Unavailable(f"Instant databases run Postgres {PG_VERSION}, which is not installed here.")
        if not able.has_isolation and not settings.listen.startswith(_LOOPBACK):
            raise Denied(
                "Bough runs here as an ordinary user, so databases are not kept apart from one another; then strangers "
                "get none. Run it as root, or let it listen on loopback."
            )
