"""Instant databases as shown to callers who know their id."""

from dataclasses import dataclass

from bough import clock
from bough.access.keys import Keys
from bough.config import Settings
from bough.control.context import Context
from bough.control.endpoints.connection_uri import build_connection_uri
from bough.control.platform.claim_links import build_claim_url
from bough.domain import database as databases
from bough.domain import role as roles
from bough.domain.instant_database import InstantDatabase, InstantStatus
from bough.domain.project import Project
from bough.errors import NotFound, PlatformError
from bough.ids import InstantId
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantDatabaseDetails:
    id: InstantId
    database: InstantDatabase
    status: InstantStatus
    connection_string: str | None  # None if it is claimed or its password was changed with SQL
    claim_url: str


async def find_instant_database(rows: Rows, keys: Keys, instant_id: InstantId) -> tuple[InstantDatabase, Project]:
    """Return the database and its project; raises NotFound if it has expired or was deleted after a claim."""
    found = await rows.instant_databases.get(keys.digest(instant_id))
    if found is None or found.is_expired(clock.now()):
        raise NotFound.resource("database")
    project = await rows.projects.get(found.project_id)
    if project is None or project.deleted_at is not None:
        raise NotFound.resource("database")
    return found, project


def describe_instant_database(
    settings: Settings, instant_id: InstantId, database: InstantDatabase, connection_string: str | None
) -> InstantDatabaseDetails:
    return InstantDatabaseDetails(
        id=instant_id,
        database=database,
        status=database.status(clock.now()),
        connection_string=connection_string,
        claim_url=build_claim_url(settings, instant_id),
    )


async def get_instant_database(context: Context, instant_id: InstantId) -> InstantDatabaseDetails:
    async with context.services.store.read() as rows:
        database, project = await find_instant_database(rows, context.services.keys, instant_id)
    uri = None if database.claimed_at else await _build_connection_string(context, project)
    return describe_instant_database(context.services.settings, instant_id, database, uri)


async def _build_connection_string(context: Context, project: Project) -> str | None:
    try:
        return await build_connection_uri(
            context,
            project,
            branch_id=None,
            endpoint_id=None,
            role_name=roles.DEFAULT_NAME,
            database_name=databases.DEFAULT_NAME,
            pooled=True,
        )
    except PlatformError:  # the user changed the password, the role or the database
        return None
