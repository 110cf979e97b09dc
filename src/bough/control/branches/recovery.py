"""A deleted branch comes back as it was: its data, its history, its roles with their passwords, its databases, and
the endpoints that went with it, so that connection strings work again. Its computes wake when somebody connects.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from bough import clock
from bough.access import lookup
from bough.control.branches.plan import check_branch_quota
from bough.control.context import Context
from bough.control.endpoints import endpoints
from bough.domain.branch import Branch, BranchState
from bough.domain.endpoint import Endpoint, EndpointState, transition_endpoint
from bough.domain.locks import LockLevel, LockScope
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.errors import Conflict, Invalid, NotFound, RuleViolation
from bough.ids import BranchId
from bough.operations.action import NewOperation
from bough.operations.archival import plan_unarchive
from bough.store.store import Rows


@dataclass(frozen=True, slots=True)
class RecoveredBranch:
    branch: Branch
    endpoints: list[Endpoint]


async def recover_branch(context: Context, project: Project, branch_id: BranchId) -> RecoveredBranch:
    async with context.locked_transaction(
        LockScope(level=LockLevel.BRANCH, project_id=project.id, branch_id=branch_id)
    ) as rows:
        project = await lookup.project(rows, context.principal, project.id, right=Right.WRITE)
        branch = await rows.branches.get(project.id, branch_id)
        now = clock.now()
        _check_recoverable(branch, now)
        assert branch is not None
        context.audit.add_details(thing=branch.id, name=branch.name)
        await _check_name_and_parent(rows, branch)
        with_it = [
            each for each in await rows.endpoints.list_with_deleted(branch.id) if each.deleted_at == branch.deleted_at
        ]
        plan = await context.project_plan(rows, project)
        await check_branch_quota(rows, project.id, plan)
        await endpoints.check_endpoint_quota(rows, project.id, plan, more=len(with_it))
        back = _undelete_branch(branch, now)
        await rows.branches.save(back)
        served = [_undelete_endpoint(each, now) for each in with_it]
        for endpoint in served:
            await rows.endpoints.save(endpoint)
        await context.enqueue(rows, *await _plan_ancestors(rows, back))
    for endpoint in served:
        await context.services.hostnames.publish(endpoint.id, project.region_id)
    await context.invalidate_endpoints(*(endpoint.id for endpoint in served))
    return RecoveredBranch(back, sorted(served, key=lambda each: (each.created_at, each.id)))


async def _check_name_and_parent(rows: Rows, branch: Branch) -> None:
    """Its name is free, and its parent there."""
    if await rows.branches.get_by_name(branch.project_id, branch.name):
        raise Conflict(
            f"The project has another branch named {branch.name!r} by now. Rename or delete that one, "
            "then recover this one."
        )
    if branch.parent_id is None:
        return
    parent = await rows.branches.get(branch.project_id, branch.parent_id)
    if parent is None or parent.deleted_at is None:
        return
    if parent.recoverable_until is None or parent.recoverable_until <= clock.now():
        raise RuleViolation(f"The branch {branch.name!r} cannot be recovered: its parent {parent.name!r} is gone.")
    raise RuleViolation(
        f"The parent {parent.name!r} of the branch {branch.name!r} is deleted too. Recover its parent first: "
        f"POST /projects/{branch.project_id}/branches/{parent.id}/recover."
    )


async def _plan_ancestors(rows: Rows, branch: Branch) -> list[NewOperation]:
    """One that is not archived has no archived ancestors; one that is comes back when somebody uses it."""
    return [] if branch.state is BranchState.ARCHIVED else await plan_unarchive(rows, branch)


def _check_recoverable(branch: Branch | None, now: datetime) -> None:
    if branch is None:
        raise NotFound.resource("branch")
    if branch.deleted_at is None:
        raise Invalid(f"The branch {branch.name!r} is not deleted, so there is nothing to recover.")
    if branch.recoverable_until is None or branch.recoverable_until <= now:
        raise RuleViolation(
            f"The branch {branch.name!r} was deleted at {branch.deleted_at.isoformat(timespec='seconds')}, and the "
            "time in which it could be recovered is over: its data is gone."
        )


def _undelete_branch(branch: Branch, now: datetime) -> Branch:
    """An end that has passed would take it away again at once."""
    back = replace(branch, deleted_at=None, deletion_method=None, recoverable_until=None, updated_at=now)
    if back.expires_at is not None and back.expires_at <= now:
        return replace(back, expires_at=None, ttl_seconds=None)
    return back


def _undelete_endpoint(endpoint: Endpoint, now: datetime) -> Endpoint:
    back = replace(endpoint, deleted_at=None, updated_at=now)
    return transition_endpoint(back, EndpointState.IDLE, now) if back.state is EndpointState.ACTIVE else back
