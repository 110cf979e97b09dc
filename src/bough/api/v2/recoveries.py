"""Recovery of deleted branches."""

from fastapi import APIRouter, Response

from bough.api.dependencies import ContextDep, IdempotentRoute, WritableProject
from bough.api.schemas import BranchIdPath, View, to_response
from bough.api.v2.branch_views import BranchView
from bough.api.v2.endpoints import EndpointView
from bough.control.branches.recovery import recover_branch
from bough.ids import BranchId

router = APIRouter(tags=["Branch"], route_class=IdempotentRoute)


class BranchRecovered(View):
    branch: BranchView
    endpoints: list[EndpointView]


@router.post("/projects/{project_id}/branches/{branch_id}/recover", response_model=BranchRecovered)
async def recover_project_branch(project: WritableProject, branch_id: BranchIdPath, context: ContextDep) -> Response:
    """Recover a deleted branch with its data and the endpoints that were deleted with it. Connection strings work
    again.

    This is possible for one day after the deletion (configurable), until `recovery.recoverable_until`.
    """
    recovered = await recover_branch(context, project, BranchId(branch_id))
    async with context.services.store.read() as rows:
        entry = await rows.branch_pages.get(project.id, recovered.branch.id)
    view = BranchView.new(recovered.branch, None) if entry is None else BranchView.of(entry)
    endpoints = [
        EndpointView.of(endpoint, project.region_id, context.services.hosts) for endpoint in recovered.endpoints
    ]
    return to_response(BranchRecovered(branch=view, endpoints=endpoints))
