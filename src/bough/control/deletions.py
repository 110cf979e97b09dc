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
from bough.domain.operation import OperationAction
from bough.operations.action import Wish
from bough.operations.actions.delete_timeline import WITH_PROJECT
from bough.store.store import Rows


@dataclass(frozen=True, slots=True)
class Removal:
    branch: Branch
    endpoints: list[Endpoint]
    wishes: list[Wish]  # in this order, each by itself or behind the one before it


async def remove(rows: Rows, branch: Branch, *, method: str, recoverable_seconds: int) -> Removal:
    """Its endpoints have the same `deleted_at` as the branch itself: so it is known which to bring back with it."""
    branches.check_deletable(branch, has_children=await rows.branches.has_children(branch.id))
    now = clock.now()
    until = now + timedelta(seconds=recoverable_seconds) if recoverable_seconds else None
    deleted = replace(branch, deleted_at=now, deletion_method=method, recoverable_until=until, updated_at=now)
    await rows.branches.save(deleted)
    gone = await rows.endpoints.of_branch(branch.id)
    for endpoint in gone:
        await rows.endpoints.save(replace(endpoint, deleted_at=now, pending_state=None, updated_at=now))
    return Removal(deleted, gone, _stops(gone) if until else [data_goes(branch)])


def data_goes(branch: Branch, *, with_project: bool = False) -> Wish:
    parameters = {WITH_PROJECT: True} if with_project else {}
    return Wish(OperationAction.DELETE_TIMELINE, branch.project_id, branch.id, parameters=parameters)


def _stops(gone: list[Endpoint]) -> list[Wish]:
    """Read replicas first: they follow the others."""
    in_order = sorted(gone, key=lambda endpoint: endpoint.type is EndpointType.READ_WRITE)
    return [Wish(OperationAction.SUSPEND_COMPUTE, each.project_id, each.branch_id, each.id) for each in in_order]
