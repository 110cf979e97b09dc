"""Branches that were deleted and come back."""

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
    """Bring a deleted branch back whole, with the endpoints that went with it: connection strings work again.

    For a day after its deletion (a setting); `recovery.recoverable_until` tells until when.
    """
    back = await recover_branch(context, project, BranchId(branch_id))
    async with context.services.store.read() as rows:
        seen = await rows.branch_pages.get(project.id, back.branch.id)
    view = BranchView.new(back.branch, None) if seen is None else BranchView.of(seen)
    served = [EndpointView.of(endpoint, project.region_id, context.services.hosts) for endpoint in back.endpoints]
    return to_response(BranchRecovered(branch=view, endpoints=served))
