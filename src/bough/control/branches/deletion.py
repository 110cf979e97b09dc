"""Deletes a branch: it becomes inaccessible at once and can be recovered for a while.

Its endpoints are deleted with it and their computes stop. Its data stays until the recovery window ends; then a task
removes it. If branches are not recoverable, the data is removed at once.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from bough import clock
from bough.domain import branch as branches
from bough.domain.branch import Branch
from bough.domain.endpoint import Endpoint, EndpointType
from bough.operations.action import NewOperation
from bough.operations.actions.delete_branch import DeleteBranch, DeleteBranchParams
from bough.operations.actions.suspend_compute import SuspendCompute
from bough.store.store import Rows


@dataclass(frozen=True, slots=True)
class BranchRemoval:
    branch: Branch
    endpoints: list[Endpoint]
    new_operations: list[NewOperation]  # to enqueue in this order


async def delete_branch_rows(rows: Rows, branch: Branch, *, method: str, recoverable_seconds: int) -> BranchRemoval:
    """Mark the branch and its endpoints as deleted. They share one `deleted_at`, by which recovery finds them."""
    branches.check_deletable(branch, has_children=await rows.branches.has_children(branch.id))
    now = clock.now()
    until = now + timedelta(seconds=recoverable_seconds) if recoverable_seconds else None
    deleted = replace(branch, deleted_at=now, deletion_method=method, recoverable_until=until, updated_at=now)
    await rows.branches.save(deleted)
    endpoints = await rows.endpoints.list_in_branch(branch.id)
    for endpoint in endpoints:
        await rows.endpoints.save(replace(endpoint, deleted_at=now, pending_state=None, updated_at=now))
    return BranchRemoval(deleted, endpoints, _plan_suspends(endpoints) if until else [plan_data_deletion(branch)])


def plan_data_deletion(branch: Branch, *, with_project: bool = False) -> NewOperation:
    params = DeleteBranchParams(with_project=with_project)
    return NewOperation(DeleteBranch, branch.project_id, branch.id, params=params)


def _plan_suspends(endpoints: list[Endpoint]) -> list[NewOperation]:
    """Suspend read replicas before the primary that they follow."""
    in_order = sorted(endpoints, key=lambda endpoint: endpoint.type is EndpointType.READ_WRITE)
    return [NewOperation.for_endpoint(SuspendCompute, each) for each in in_order]
