"""The thing, for a right: there is no way to hold it without saying what for.

A stranger gets the same "not found" as someone who mistyped an id.
"""

from bough.access import levels
from bough.access.principal import Principal
from bough.domain.branch import Branch
from bough.domain.endpoint import Endpoint
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.domain.rights import AccessLevel, Right
from bough.errors import Denied, NotFound
from bough.ids import BranchId, EndpointId, ProjectId
from bough.store.store import Rows


async def project(
    rows: Rows, principal: Principal, project_id: ProjectId, *, right: Right, include_deleted: bool = False
) -> Project:
    """A project that lives, or with `deleted` one that can be recovered."""
    found = await rows.projects.get(project_id)
    if found is None or (found.deleted_at is not None and not include_deleted):
        raise NotFound.resource("project")
    has = await levels.load_level(rows, principal, found)
    if has is AccessLevel.NONE:
        raise NotFound.resource("project")
    if not levels.allows(principal, right, found, has):
        raise Denied(f"You may not {right} this project. {_way_out(principal)}")
    return found


async def branch(rows: Rows, project: Project, branch_id: BranchId) -> Branch:
    """A branch of a project that is already held."""
    found = await rows.branches.get(project.id, branch_id)
    if found is None or found.deleted_at is not None:
        raise NotFound.resource("branch")
    return found


async def endpoint(rows: Rows, project: Project, endpoint_id: EndpointId) -> Endpoint:
    """An endpoint of a project that is already held."""
    found = await rows.endpoints.get(endpoint_id)
    if found is None or found.project_id != project.id:
        raise NotFound.resource("endpoint")
    return found


async def organization_of(rows: Rows, principal: Principal, project: Project) -> Organization:
    """The organization of a project that is already held; a caller it is shared with is not in it."""
    if membership := principal.memberships.get(project.org_id):
        return membership.organization
    found = await rows.organizations.get(project.org_id)
    if found is None:
        raise NotFound.resource("organization")
    return found


def _way_out(principal: Principal) -> str:
    if principal.is_person:
        return "Ask an admin of its organization for a role that may."
    return "Use a personal API key, or one of the whole organization."
