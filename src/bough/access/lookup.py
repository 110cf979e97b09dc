"""The thing, for a right: there is no way to hold it without saying what for.

A stranger gets the same "not found" as someone who mistyped an id.
"""

from bough.access.principal import Principal, Right
from bough.domain.branch import Branch
from bough.domain.endpoint import Endpoint
from bough.domain.project import Project
from bough.errors import Denied, NotFound
from bough.ids import BranchId, EndpointId, ProjectId
from bough.store.store import Rows


async def project(
    rows: Rows, principal: Principal, project_id: ProjectId, *, to: Right, deleted: bool = False
) -> Project:
    """A project that lives, or with `deleted` one that can be recovered."""
    found = await rows.projects.get(project_id)
    if found is None or not principal.may(Right.READ, found) or (found.deleted_at is not None and not deleted):
        raise NotFound.thing("project")
    if not principal.may(to, found):
        raise Denied(f"This API key may not {to} the project; use a personal or an organization key.")
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
