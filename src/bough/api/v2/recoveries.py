"""Branches that were deleted and come back."""

from fastapi import APIRouter, Response

from bough.api.given import DeskGiven, OnceRoute, WritableProject
from bough.api.shapes import BranchName, View, show
from bough.api.v2.branch_views import BranchView
from bough.api.v2.endpoints import EndpointView
from bough.control.recovering import Recovering
from bough.ids import BranchId

router = APIRouter(tags=["Branch"], route_class=OnceRoute)


class BranchRecovered(View):
    branch: BranchView
    endpoints: list[EndpointView]


@router.post("/projects/{project_id}/branches/{branch_id}/recover", response_model=BranchRecovered)
async def recover_project_branch(project: WritableProject, branch_id: BranchName, desk: DeskGiven) -> Response:
    """Bring a deleted branch back whole, with the endpoints that went with it: connection strings work again.

    For a day after its deletion (a setting); `recovery.recoverable_until` tells until when.
    """
    back = await Recovering(desk).recover(project, BranchId(branch_id))
    async with desk.store.read() as rows:
        seen = await rows.branch_pages.one(project.id, back.branch.id)
    view = BranchView.new(back.branch, None) if seen is None else BranchView.of(seen)
    served = [EndpointView.of(endpoint, project.region_id, desk.hosts) for endpoint in back.endpoints]
    return show(BranchRecovered(branch=view, endpoints=served))
