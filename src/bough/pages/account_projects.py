"""The projects that a user can access, with their connection strings."""

from collections.abc import Sequence
from dataclasses import dataclass

from bough.access import levels
from bough.control.context import Context
from bough.control.endpoints.connection_uri import build_direct_and_pooled_uris
from bough.domain.database import Database
from bough.domain.project import Project
from bough.domain.rights import AccessLevel, Right
from bough.errors import PlatformError
from bough.store.store import Rows

MAX_PROJECTS = 100
MAX_DATABASES = 5  # per project
_NO_PASSWORDS = (
    "Your role lets you read this project but not its passwords. Ask an admin of its organization for another role."
)
_NO_DATABASE = "The default branch has no database. Create one with the API."


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionStrings:
    """Connection strings of a database for its owner, or the reason why there are none."""

    database: str
    role: str
    direct: str = ""
    pooled: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownProject:
    id: str
    name: str
    organization: str
    region: str
    pg_version: int
    connections: Sequence[ConnectionStrings]
    reason: str  # why there are none
    more_databases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountProjects:
    shown: Sequence[ShownProject]
    is_complete: bool


async def read(context: Context) -> AccountProjects:
    caller = context.principal
    async with context.services.store.read(slow=True) as rows:
        scope = {
            **await levels.find_reachable_projects(rows, caller, list(caller.memberships.values()), AccessLevel.VIEWER),
            **await levels.find_shared_projects(rows, caller),
        }
        page = await rows.project_pages.page(scope, search="", limit=MAX_PROJECTS, after=None)
        projects = [entry.project for entry in page.rows]
        access_levels = await levels.load_levels(rows, caller, projects)
        owners = await rows.organizations.get_many({project.org_id for project in projects})
        databases = {project.id: await _load_databases(rows, project) for project in projects}
    shown = [
        await _to_shown_project(
            context, project, owners[project.org_id].name, access_levels[project.id], databases[project.id]
        )
        for project in projects
        if project.org_id in owners
    ]
    return AccountProjects(shown=shown, is_complete=page.next is None)


async def _load_databases(rows: Rows, project: Project) -> list[Database]:
    branch = await rows.branches.get_default(project.id)
    return await rows.databases.list_in_branch(branch.id) if branch else []


async def _to_shown_project(
    context: Context, project: Project, owner: str, level: AccessLevel, databases: Sequence[Database]
) -> ShownProject:
    can_connect = levels.allows(context.principal, Right.CONNECT, project, level)
    region = context.services.settings.region(project.region_id)
    return ShownProject(
        id=project.id,
        name=project.name,
        organization=owner,
        region=region.name if region else project.region_id,
        pg_version=project.pg_version,
        connections=[await _load_connection_strings(context, project, each) for each in databases[:MAX_DATABASES]]
        if can_connect
        else (),
        reason=_NO_DATABASE if can_connect else _NO_PASSWORDS,
        more_databases=max(0, len(databases) - MAX_DATABASES),
    )


async def _load_connection_strings(context: Context, project: Project, database: Database) -> ConnectionStrings:
    try:
        direct, pooled = await build_direct_and_pooled_uris(context, project, database)
    except PlatformError as error:
        return ConnectionStrings(database=database.name, role=database.owner_name, reason=error.public_message)
    return ConnectionStrings(database=database.name, role=database.owner_name, direct=direct, pooled=pooled)
