"""Creating an instant database: one that was prepared gets its id, or else a new one is made while the caller waits."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bough import clock, log
from bough.control.audit import AuditRecord
from bough.control.context import Context
from bough.control.instant.databases import InstantDatabaseDetails, describe_instant_database
from bough.control.instant.prepared import create_unclaimed_context, new_instant_project
from bough.control.platform.claim_links import sealing_purpose
from bough.control.projects.projects import add_project
from bough.control.services import Services
from bough.domain import database as databases
from bough.domain import role as roles
from bough.domain.connection_uri import build_connection_uri
from bough.domain.instant_database import PG_VERSION, REGION, InstantDatabase
from bough.domain.locks import LockLevel, LockScope
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


async def create_instant_database(
    services: Services, audit: AuditRecord, requested: NewInstantDatabase
) -> InstantDatabaseDetails:
    """It accepts connections when this is over. All of it is there, or nothing."""
    _check_supported(services)
    services.creation_limits.take(audit.address)
    context = await create_unclaimed_context(services, audit)
    context.check_can_create()
    context.audit.add_details(ref=requested.ref)
    instant_id = requested.id or InstantId.new_at(clock.now())
    made = None if requested.logical_replication else await _assign_prepared(context, instant_id, requested)
    if made is None:
        async with services.creation_limits.slot():
            made = await _create(context, instant_id, requested)
    uri = build_connection_uri(
        role=roles.DEFAULT_NAME,
        password=made.password,
        host=services.hosts.pooled_host(made.endpoint_id, REGION),
        database=databases.DEFAULT_NAME,
    )
    return describe_instant_database(services.settings, instant_id, made.database, uri)


async def _assign_prepared(
    context: Context, instant_id: InstantId, requested: NewInstantDatabase
) -> _StartedDatabase | None:
    """One that was prepared, which is as good as done; None when there is none."""
    try:
        async with context.transaction() as rows:
            now = clock.now()
            found = await rows.prepared_databases.assign_next(roles.DEFAULT_NAME, now)
            if found is None or found.sealed_password is None:
                raise _NonePrepared
            context.audit.add_details(org_id=context.principal.default_organization().id, project_id=found.project_id)
            database = _plan_row(context.services, instant_id, found.project_id, requested, now)
            await _add_row(rows, database)
    except _NonePrepared:
        return None
    purpose = roles.password_sealing_purpose(found.branch_id, roles.DEFAULT_NAME)
    password = context.services.vault.open(found.sealed_password, purpose)
    made = _StartedDatabase(database=database, endpoint_id=found.endpoint_id, password=password)
    await _until_ready(context.services, made)
    return made


async def _create(context: Context, instant_id: InstantId, requested: NewInstantDatabase) -> _StartedDatabase:
    project_id = ProjectId.new()
    async with context.locked_transaction(LockScope(level=LockLevel.PROJECT, project_id=project_id)) as rows:
        try:
            created = await add_project(
                context,
                rows,
                project_id,
                new_instant_project(logical_replication=requested.logical_replication),
                context.principal.default_organization(),
            )
        except RuleViolation:
            raise Unavailable(
                "There are as many unclaimed databases as this installation has room for. Try again later: "
                "those that nobody claims are deleted."
            ) from None
        database = _plan_row(context.services, instant_id, project_id, requested, created.project.created_at)
        await _add_row(rows, database)
    await context.services.hostnames.publish(created.endpoint.id, REGION)
    made = _StartedDatabase(database=database, endpoint_id=created.endpoint.id, password=created.password)
    await _until_ready(context.services, made)
    return made


def _plan_row(
    services: Services, instant_id: InstantId, project_id: ProjectId, requested: NewInstantDatabase, now: datetime
) -> InstantDatabase:
    digest = services.keys.digest(instant_id)
    return InstantDatabase(
        digest=digest,
        sealed_id=services.vault.seal(instant_id, sealing_purpose(digest)),
        project_id=project_id,
        ref=requested.ref,
        created_at=now,
        updated_at=now,
        expires_at=now + timedelta(hours=services.settings.instant_hours),
    )


async def _add_row(rows: Rows, database: InstantDatabase) -> None:
    try:
        await rows.instant_databases.add(database)
    except Duplicate:
        raise Conflict("This id cannot be used.") from None


async def _until_ready(services: Services, made: _StartedDatabase) -> None:
    """What cannot be started is no database: it expires at once."""
    try:
        await services.wakes.wake(made.endpoint_id)
    except PlatformError as error:
        logger.warning("instant_database_not_started", endpoint_id=made.endpoint_id, reason=error.public_message)
        async with services.store.transaction() as rows:
            await rows.instant_databases.save(replace(made.database, expires_at=clock.now()))
        raise Unavailable(
            f"The database could not be started, so it was taken back: {error.public_message} Try again in a moment."
        ) from error


def _check_supported(services: Services) -> None:
    settings, able = services.settings, services.engine.capabilities()
    if settings.region(REGION) is None:
        raise Unavailable(f"Instant databases live in the region {REGION}, which this installation has not.")
    if PG_VERSION not in able.installs:
        raise Unavailable(f"Instant databases run Postgres {PG_VERSION}, which is not installed here.")
    if not able.has_isolation and not settings.listen.startswith(_LOOPBACK):
        raise Denied(
            "Bough runs here as an ordinary user, so databases are not kept apart from one another; then strangers "
            "get none. Run it as root, or let it listen on loopback."
        )
