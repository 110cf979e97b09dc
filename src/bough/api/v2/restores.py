"""Branches that get other data: of a point in their own history, or of another branch."""

from fastapi import APIRouter, Response

from bough.api.dependencies import ContextDep, IdempotentRoute, WritableProject
from bough.api.schemas import BranchIdPath
from bough.api.v2.branch_bodies import BranchRestore
from bough.api.v2.branches import BranchOperations, build_branch_response
from bough.control.restores.restores import restore_branch
from bough.ids import BranchId

router = APIRouter(tags=["Branch"], route_class=IdempotentRoute)


@router.post("/projects/{project_id}/branches/{branch_id}/restore", response_model=BranchOperations)
async def restore_project_branch(
    project: WritableProject, branch_id: BranchIdPath, body: BranchRestore, context: ContextDep
) -> Response:
    """Give a branch the data of a point in its own history, or of another branch, as that is or was: a reset is a
    restore from the parent. The branch keeps its id, its endpoints and its passwords, so connection strings go on
    working.

    What it has now stays as the branch `preserve_under_name`, and its children move to that. The name is required for
    a restore to itself, and when the branch has children.
    """
    return await build_branch_response(
        context, *await restore_branch(context, project, BranchId(branch_id), body.to_restore_request())
    )
