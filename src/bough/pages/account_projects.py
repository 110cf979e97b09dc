"""The projects of one person, in their organizations and shared with them, each with the strings to connect with."""

from collections.abc import Sequence
from dataclasses import dataclass

from bough.access import levels
from bough.control.connection import Connections
from bough.control.desk import Desk
from bough.domain.database import Database
from bough.domain.project import Project
from bough.domain.rights import Level, Right
from bough.errors import PlatformError
from bough.store.store import Rows

MOST = 100
MOST_DATABASES = 5  # of a project
_NO_PASSWORDS = (
    "You may read this project, but not see its passwords. Ask an admin of its organization for a role that may."
)
_NO_DATABASE = "Its default branch has no database. Create one with the API."


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Into one database, as its owner; without strings it says why."""

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
    ways: Sequence[Way]
    reason: str  # why there are none
    more_databases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Projects:
    shown: Sequence[ShownProject]
    are_all: bool


async def read(desk: Desk) -> Projects:
    caller = desk.principal
    async with desk.store.read(slow=True) as rows:
        reach = {
            **await levels.reach(rows, caller, list(caller.memberships.values()), Level.VIEWER),
            **await levels.shared(rows, caller),
        }
        page = await rows.projects.page(reach, search="", limit=MOST, after=None)
        projects = [seen.project for seen in page.rows]
        has = await levels.levels(rows, caller, projects)
        owners = await rows.organizations.named({project.org_id for project in projects})
        databases = {project.id: await _databases(rows, project) for project in projects}
    shown = [
        await _shown(desk, project, owners[project.org_id].name, has[project.id], databases[project.id])
        for project in projects
        if project.org_id in owners
    ]
    return Projects(shown=shown, are_all=page.next is None)


async def _databases(rows: Rows, project: Project) -> list[Database]:
    branch = await rows.branches.default(project.id)
    return await rows.databases.of_branch(branch.id) if branch else []


async def _shown(desk: Desk, project: Project, owner: str, has: Level, databases: Sequence[Database]) -> ShownProject:
    may = levels.allows(desk.principal, Right.CONNECT, project, has)
    region = desk.settings.region(project.region_id)
    return ShownProject(
        id=project.id,
        name=project.name,
        organization=owner,
        region=region.name if region else project.region_id,
        pg_version=project.pg_version,
        ways=[await _way(desk, project, each) for each in databases[:MOST_DATABASES]] if may else (),
        reason=_NO_DATABASE if may else _NO_PASSWORDS,
        more_databases=max(0, len(databases) - MOST_DATABASES),
    )


async def _way(desk: Desk, project: Project, database: Database) -> Way:
    try:
        direct, pooled = await Connections(desk).direct_and_pooled(project, database)
    except PlatformError as error:
        return Way(database=database.name, role=database.owner_name, reason=error.public)
    return Way(database=database.name, role=database.owner_name, direct=direct, pooled=pooled)
