"""The thing, for a right: there is no way to hold it without saying what for.

A stranger gets the same "not found" as someone who mistyped an id.
"""

from bough.access import levels
from bough.access.principal import Principal
from bough.domain.branch import Branch
from bough.domain.endpoint import Endpoint
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.domain.rights import Level, Right
from bough.errors import Denied, NotFound
from bough.ids import BranchId, EndpointId, ProjectId
from bough.store.store import Rows


async def project(
    rows: Rows, principal: Principal, project_id: ProjectId, *, to: Right, deleted: bool = False
) -> Project:
    """A project that lives, or with `deleted` one that can be recovered."""
    found = await rows.projects.get(project_id)
    if found is None or (found.deleted_at is not None and not deleted):
        raise NotFound.thing("project")
    has = await levels.level(rows, principal, found)
    if has is Level.NONE:
        raise NotFound.thing("project")
    if not levels.allows(principal, to, found, has):
        raise Denied(f"You may not {to} this project. {_way_out(principal)}")
    return found


async def branch(rows: Rows, held: Project, branch_id: BranchId) -> Branch:
    """A branch of a project that is already held."""
    found = await rows.branches.get(held.id, branch_id)
    if found is None or found.deleted_at is not None:
        raise NotFound.thing("branch")
    return found


async def endpoint(rows: Rows, held: Project, endpoint_id: EndpointId) -> Endpoint:
    """An endpoint of a project that is already held."""
    found = await rows.endpoints.get(endpoint_id)
    if found is None or found.project_id != held.id:
        raise NotFound.thing("endpoint")
    return found


async def organization_of(rows: Rows, principal: Principal, held: Project) -> Organization:
    """The organization of a project that is already held; a caller it is shared with is not in it."""
    if membership := principal.memberships.get(held.org_id):
        return membership.organization
    found = await rows.organizations.get(held.org_id)
    if found is None:
        raise NotFound.thing("organization")
    return found


def _way_out(principal: Principal) -> str:
    if principal.is_person:
        return "Ask an admin of its organization for a role that may."
    return "Use a personal API key, or one of the whole organization."
