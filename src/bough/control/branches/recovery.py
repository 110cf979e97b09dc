"""Recovers a deleted branch: its data, history, roles with passwords, databases, and the endpoints deleted with it.

Existing connection strings work again. Its computes start on the next connection.
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
        context.audit.add_details(resource=branch.id, name=branch.name)
        await _check_name_and_parent(rows, branch)
        deleted_endpoints = [
            each for each in await rows.endpoints.list_with_deleted(branch.id) if each.deleted_at == branch.deleted_at
        ]
        plan = await context.load_project_plan(rows, project)
        await check_branch_quota(rows, project.id, plan)
        await endpoints.check_endpoint_quota(rows, project.id, plan, more=len(deleted_endpoints))
        recovered = _undelete_branch(branch, now)
        await rows.branches.save(recovered)
        recovered_endpoints = [_undelete_endpoint(each, now) for each in deleted_endpoints]
        for endpoint in recovered_endpoints:
            await rows.endpoints.save(endpoint)
        await context.enqueue(rows, *await _plan_ancestors(rows, recovered))
    for endpoint in recovered_endpoints:
        await context.services.hostnames.publish(endpoint.id, project.region_id)
    await context.invalidate_endpoints(*(endpoint.id for endpoint in recovered_endpoints))
    return RecoveredBranch(recovered, sorted(recovered_endpoints, key=lambda each: (each.created_at, each.id)))


async def _check_name_and_parent(rows: Rows, branch: Branch) -> None:
    """Check that the branch's name is free and its parent exists."""
    if await rows.branches.get_by_name(branch.project_id, branch.name):
        raise Conflict(
            f"The project has another branch named {branch.name!r} now. Rename or delete that one, "
            "then recover this one."
        )
    if branch.parent_id is None:
        return
    parent = await rows.branches.get(branch.project_id, branch.parent_id)
    if parent is None or parent.deleted_at is None:
        return
    if parent.recoverable_until is None or parent.recoverable_until <= clock.now():
        raise RuleViolation(f"The branch {branch.name!r} cannot be recovered: its parent {parent.name!r} was removed.")
    raise RuleViolation(
        f"The parent {parent.name!r} of the branch {branch.name!r} is deleted too. Recover its parent first: "
        f"POST /projects/{branch.project_id}/branches/{parent.id}/recover."
    )


async def _plan_ancestors(rows: Rows, branch: Branch) -> list[NewOperation]:
    """Unarchive the ancestors of an unarchived branch. An archived branch is unarchived on its next use."""
    return [] if branch.state is BranchState.ARCHIVED else await plan_unarchive(rows, branch)


def _check_recoverable(branch: Branch | None, now: datetime) -> None:
    if branch is None:
        raise NotFound.resource("branch")
    if branch.deleted_at is None:
        raise Invalid(f"The branch {branch.name!r} is not deleted.")
    if branch.recoverable_until is None or branch.recoverable_until <= now:
        raise RuleViolation(
            f"The branch {branch.name!r} was deleted at {branch.deleted_at.isoformat(timespec='seconds')}, and its "
            "recovery window has ended: its data was removed."
        )


def _undelete_branch(branch: Branch, now: datetime) -> Branch:
    """Clear an expiration in the past, which would delete the branch again at once."""
    restored = replace(branch, deleted_at=None, deletion_method=None, recoverable_until=None, updated_at=now)
    if restored.expires_at is not None and restored.expires_at <= now:
        return replace(restored, expires_at=None, ttl_seconds=None)
    return restored


def _undelete_endpoint(endpoint: Endpoint, now: datetime) -> Endpoint:
    restored = replace(endpoint, deleted_at=None, updated_at=now)
    return (
        transition_endpoint(restored, EndpointState.IDLE, now) if restored.state is EndpointState.ACTIVE else restored
    )
