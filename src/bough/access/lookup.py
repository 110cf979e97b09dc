"""Lookups that check a right: a caller can obtain a project only by naming the right it needs.

A caller without access gets the same "not found" error as for an id that does not exist.
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
    """Return the project; one that is deleted but recoverable only with `include_deleted`."""
    found = await rows.projects.get(project_id)
    if found is None or (found.deleted_at is not None and not include_deleted):
        raise NotFound.resource("project")
    level = await levels.load_level(rows, principal, found)
    if level is AccessLevel.NONE:
        raise NotFound.resource("project")
    if not levels.allows(principal, right, found, level):
        raise Denied(f"You may not {right} this project. {_denial_hint(principal)}")
    return found


async def branch(rows: Rows, project: Project, branch_id: BranchId) -> Branch:
    """Return a branch of a project that was already checked."""
    found = await rows.branches.get(project.id, branch_id)
    if found is None or found.deleted_at is not None:
        raise NotFound.resource("branch")
    return found


async def endpoint(rows: Rows, project: Project, endpoint_id: EndpointId) -> Endpoint:
    """Return an endpoint of a project that was already checked."""
    found = await rows.endpoints.get(endpoint_id)
    if found is None or found.project_id != project.id:
        raise NotFound.resource("endpoint")
    return found


async def organization_of(rows: Rows, principal: Principal, project: Project) -> Organization:
    """Return the organization that owns the project, even if the caller is not a member of it."""
    if membership := principal.memberships.get(project.org_id):
        return membership.organization
    found = await rows.organizations.get(project.org_id)
    if found is None:
        raise NotFound.resource("organization")
    return found


def _denial_hint(principal: Principal) -> str:
    if principal.is_person:
        return "Ask an admin of its organization for a role that allows this."
    return "Use a personal API key or an organization API key."
