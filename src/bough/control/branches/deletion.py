"""Deleting a branch: nobody can reach it from then on, and for a while it can be recovered whole.

Its endpoints go with it, and their computes stop. Its data stays until the time is over; then a task removes it for
good. Where nothing can be recovered, the data goes at once.
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
    new_operations: list[NewOperation]  # in this order, each by itself or behind the one before it


async def delete_branch_rows(rows: Rows, branch: Branch, *, method: str, recoverable_seconds: int) -> BranchRemoval:
    """Its endpoints have the same `deleted_at` as the branch itself: so it is known which to bring back with it."""
    branches.check_deletable(branch, has_children=await rows.branches.has_children(branch.id))
    now = clock.now()
    until = now + timedelta(seconds=recoverable_seconds) if recoverable_seconds else None
    deleted = replace(branch, deleted_at=now, deletion_method=method, recoverable_until=until, updated_at=now)
    await rows.branches.save(deleted)
    gone = await rows.endpoints.list_in_branch(branch.id)
    for endpoint in gone:
        await rows.endpoints.save(replace(endpoint, deleted_at=now, pending_state=None, updated_at=now))
    return BranchRemoval(deleted, gone, _plan_suspends(gone) if until else [plan_data_deletion(branch)])


def plan_data_deletion(branch: Branch, *, with_project: bool = False) -> NewOperation:
    params = DeleteBranchParams(with_project=with_project)
    return NewOperation(DeleteBranch, branch.project_id, branch.id, params=params)


def _plan_suspends(gone: list[Endpoint]) -> list[NewOperation]:
    """Read replicas first: they follow the others."""
    in_order = sorted(gone, key=lambda endpoint: endpoint.type is EndpointType.READ_WRITE)
    return [NewOperation(SuspendCompute, each.project_id, each.branch_id, each.id) for each in in_order]
