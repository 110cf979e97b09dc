"""Restores of a branch from its own history or from another branch."""

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
    """Restore a branch to a point in its own history, or to the current or an earlier state of another branch. A
    restore from the parent is a reset. The branch keeps its id, endpoints and passwords, so connection strings continue
    to work.

    With `preserve_under_name`, the current data is kept as a branch of that name, which becomes the parent of the
    restored branch's children. The name is required for a restore from its own history and if the branch has children.
    """
    return await build_branch_response(
        context, *await restore_branch(context, project, BranchId(branch_id), body.to_restore_request())
    )
