"""Creates an instant database: assigns an id to a prepared one, or creates a new one while the caller waits."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bough import clock, log
from bough.control.audit import AuditRecord
from bough.control.context import Context
from bough.control.instant.databases import InstantDatabaseDetails, describe_instant_database
from bough.control.instant.unclaimed import create_unclaimed_context, plan_instant_project
from bough.control.platform.claim_links import sealing_purpose
from bough.control.projects.projects import add_project
from bough.control.services import Services
from bough.domain import database as databases
from bough.domain import role as roles
from bough.domain.connection_uri import build_connection_uri
from bough.domain.instant_database import PG_VERSION, REGION, InstantDatabase
from bough.domain.locks import LockScope
from bough.errors import Conflict, Denied, PlatformError, RuleViolation, Unavailable
from bough.ids import EndpointId, InstantId, ProjectId
from bough.store.queries import Duplicate
from bough.store.store import Rows

_LOOPBACK = ("127.", "::1", "localhost")

logger = log.get_logger(component="control")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedInstantDatabase:
    ref: str
    logical_replication: bool = False
    id: InstantId | None = None  # chosen by the caller


@dataclass(frozen=True, slots=True, kw_only=True)
class _StartedDatabase:
    database: InstantDatabase
    endpoint_id: EndpointId
    password: str


class _NonePrepared(Exception):
    """No prepared database is available; nothing was changed."""


async def create_instant_database(
    services: Services, audit: AuditRecord, requested: RequestedInstantDatabase
) -> InstantDatabaseDetails:
    """Create the database completely or not at all; it accepts connections when this returns."""
    _check_supported(services)
    services.creation_limits.take(audit.address)
    context = await create_unclaimed_context(services, audit)
    context.check_can_create()
    context.audit.add_details(ref=requested.ref)
    instant_id = requested.id or InstantId.new_at(clock.now())
    started = None if requested.logical_replication else await _assign_prepared(context, instant_id, requested)
    if started is None:
        async with services.creation_limits.slot():
            started = await _create(context, instant_id, requested)
    uri = build_connection_uri(
        role=roles.DEFAULT_NAME,
        password=started.password,
        host=services.hosts.pooled_host(started.endpoint_id, REGION),
        database=databases.DEFAULT_NAME,
    )
    return describe_instant_database(services.settings, instant_id, started.database, uri)


async def _assign_prepared(
    context: Context, instant_id: InstantId, requested: RequestedInstantDatabase
) -> _StartedDatabase | None:
    """Assign a prepared database, which takes no time; None if there is none."""
    try:
        async with context.transaction() as rows:
            now = clock.now()
            prepared = await rows.prepared_databases.assign_next(roles.DEFAULT_NAME, now)
            if prepared is None or prepared.sealed_password is None:
                raise _NonePrepared
            context.audit.add_details(
                org_id=context.principal.default_organization().id, project_id=prepared.project_id
            )
            database = _plan_row(context.services, instant_id, prepared.project_id, requested, now)
            await _add_row(rows, database)
    except _NonePrepared:
        return None
    purpose = roles.password_sealing_purpose(prepared.branch_id, roles.DEFAULT_NAME)
    password = context.services.vault.open(prepared.sealed_password, purpose)
    started = _StartedDatabase(database=database, endpoint_id=prepared.endpoint_id, password=password)
    await _wait_until_ready(context.services, started)
    return started


async def _create(context: Context, instant_id: InstantId, requested: RequestedInstantDatabase) -> _StartedDatabase:
    project_id = ProjectId.new()
    async with context.locked_transaction(LockScope.project(project_id)) as rows:
        try:
            created = await add_project(
                context,
                rows,
                project_id,
                plan_instant_project(logical_replication=requested.logical_replication),
                context.principal.default_organization(),
            )
        except RuleViolation:
            raise Unavailable(
                "This installation has reached its limit of unclaimed databases. Try again later, when unclaimed "
                "databases have expired."
            ) from None
        database = _plan_row(context.services, instant_id, project_id, requested, created.project.created_at)
        await _add_row(rows, database)
    await context.services.hostnames.publish(created.endpoint.id, REGION)
    started = _StartedDatabase(database=database, endpoint_id=created.endpoint.id, password=created.password)
    await _wait_until_ready(context.services, started)
    return started


def _plan_row(
    services: Services, instant_id: InstantId, project_id: ProjectId, requested: RequestedInstantDatabase, now: datetime
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


async def _wait_until_ready(services: Services, started: _StartedDatabase) -> None:
    """Start the compute. If that fails, expire the database at once."""
    try:
        await services.wakes.wake(started.endpoint_id)
    except PlatformError as error:
        logger.warning("instant_database_not_started", endpoint_id=started.endpoint_id, reason=error.public_message)
        async with services.store.transaction() as rows:
            await rows.instant_databases.save(replace(started.database, expires_at=clock.now()))
        raise Unavailable(
            f"The database could not be started and was removed: {error.public_message} Try again in a moment."
        ) from error


def _check_supported(services: Services) -> None:
    settings, capabilities = services.settings, services.engine.capabilities()
    if settings.region(REGION) is None:
        raise Unavailable(f"Instant databases need the region {REGION}, which this installation does not have.")
    if PG_VERSION not in capabilities.installs:
        raise Unavailable(f"Instant databases need Postgres {PG_VERSION}, which is not installed here.")
    if not capabilities.has_isolation and not settings.listen.startswith(_LOOPBACK):
        raise Denied(
            "Bough runs here as an ordinary user, without isolation between databases, so it does not create "
            "databases for anonymous callers. Run it as root, or let it listen on loopback."
        )
