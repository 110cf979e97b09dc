"""Branches: create, update, delete, make one the default."""

from dataclasses import dataclass, replace
from datetime import timedelta

from bough import clock
from bough.access import lookup
from bough.config import Plan
from bough.control.branches import deletion, new_rows, points
from bough.control.branches.inheritance import InheritedContents, inherit
from bough.control.branches.plan import (
    BranchChange,
    RequestedBranch,
    check_branch_quota,
    check_name_is_free,
    check_requested_branch,
    find_creating_operation,
    name_conflict,
)
from bough.control.context import Context
from bough.control.endpoints import endpoints
from bough.control.endpoints.plan import plan_endpoint
from bough.domain import branch as branches
from bough.domain.branch import Branch
from bough.domain.endpoint import Endpoint
from bough.domain.history import Point, RecoveryTarget
from bough.domain.locks import LockLevel, LockScope
from bough.domain.operation import Operation
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.errors import NotFound, RuleViolation
from bough.ids import BranchId
from bough.operations import archival
from bough.operations.action import NewOperation
from bough.operations.actions.create_branch import CreateBranch, CreateBranchParams
from bough.operations.archival import plan_unarchive
from bough.store.queries import Duplicate
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedBranch:
    branch: Branch
    endpoints: list[Endpoint]
    inherited: InheritedContents
    operations: list[Operation]
    creator_name: str | None


async def create_branch(context: Context, project: Project, requested: RequestedBranch) -> CreatedBranch:
    """Add the branch, the roles and databases of its parent, its endpoints, and the operations in one transaction."""
    context.check_can_create()
    check_requested_branch(requested)
    parent_id = requested.parent_id or await _find_default_branch_id(context, project)
    wal_end = await points.read_wal_end(context, project, parent_id, requested.point)
    lock = LockScope(level=LockLevel.BRANCH, project_id=project.id, branch_id=BranchId.new(), source_id=parent_id)
    async with context.locked_transaction(lock) as rows:
        project = await lookup.project(rows, context.principal, project.id, right=Right.WRITE)
        parent = await lookup.branch(rows, project, parent_id)
        plan = await context.load_project_plan(rows, project)
        await _check_quota(rows, project, plan, len(requested.endpoints))
        params = CreateBranchParams(
            source_id=parent.id,
            replaces_passwords=parent.is_protected,
            target=await _resolve_point(context, rows, project, parent, requested.point, wal_end=wal_end),
        )
        branch = await _add_branch(context, rows, project, parent, requested)
        context.audit.add_details(resource=branch.id, name=branch.name)
        # A microsecond apart, so that lists show them in the requested order.
        new_endpoints = [
            plan_endpoint(
                project, branch, endpoint_type, each, plan=plan, now=branch.created_at + timedelta(microseconds=index)
            )
            for index, (endpoint_type, each) in enumerate(requested.endpoints)
        ]
        new_endpoints = await endpoints.hold_back(rows, new_endpoints)
        for endpoint in new_endpoints:
            await endpoints.add_endpoint(rows, endpoint)
        creator = await rows.users.get(branch.created_by)
        vault = context.services.vault if project.store_passwords else None
        inherited = await inherit(rows, parent, branch, vault)
        operations = await context.enqueue(
            rows,
            *await archival.plan_unarchive(rows, parent),
            NewOperation(CreateBranch, project.id, branch.id, params=params),
            *endpoints.plan_starts(*new_endpoints),
            *([archival.plan_archive(branch, new_endpoints)] if requested.is_archived else []),
            after=await find_creating_operation(rows, parent),
        )
    for endpoint in new_endpoints:
        await context.services.hostnames.publish(endpoint.id, project.region_id)
    return CreatedBranch(
        branch=branch,
        endpoints=new_endpoints,
        inherited=inherited,
        operations=operations,
        creator_name=creator.name if creator else None,
    )


async def update_branch(
    context: Context, project: Project, branch_id: BranchId, change: BranchChange
) -> tuple[Branch, list[Operation]]:
    """Update the branch. A protected branch is never archived, so protecting an archived one unarchives it."""
    async with context.locked_transaction(
        LockScope(level=LockLevel.ENDPOINT, project_id=project.id, branch_id=branch_id)
    ) as rows:
        before = await lookup.branch(rows, project, branch_id)
        now = clock.now()
        after = replace(
            before,
            name=change.name or before.name,
            is_protected=before.is_protected if change.is_protected is None else change.is_protected,
            updated_at=now,
        )
        if change.sets_expiration:
            after = branches.set_expiration(after, change.expires_at, now)
        branches.check_can_expire(after, has_children=await rows.branches.has_children(branch_id))
        if after.name != before.name:
            await check_name_is_free(rows, project, after.name)
        await rows.branches.save(after)
        served = await rows.endpoints.list_in_branch(branch_id)
        first = await plan_unarchive(rows, after) if after.is_protected else []
        operations = await context.enqueue(rows, *first)
    if after.is_protected != before.is_protected:  # access rules depend on it
        await context.invalidate_endpoints(*(endpoint.id for endpoint in served))
    return after, operations


async def set_default_branch(context: Context, project: Project, branch_id: BranchId) -> tuple[Branch, list[Operation]]:
    async with context.locked_transaction(
        LockScope(level=LockLevel.ENDPOINT, project_id=project.id, branch_id=branch_id)
    ) as rows:
        branch = await lookup.branch(rows, project, branch_id)
        if branch.expires_at is not None:
            raise RuleViolation(f"The branch {branch.name!r} expires. Clear its expires_at, then make it the default.")
        now = clock.now()
        before = await rows.branches.get_default(project.id)
        if before is not None and before.id != branch.id:
            await rows.branches.save(replace(before, is_default=False, updated_at=now))
        after = replace(branch, is_default=True, updated_at=now)
        await rows.branches.save(after)
        operations = await context.enqueue(rows, *await plan_unarchive(rows, after))
    return after, operations


async def delete_branch(
    context: Context, project: Project, branch_id: BranchId
) -> tuple[Branch, list[Operation]] | None:
    """Delete the branch and stop its computes. Its data stays until it can no longer be recovered.

    Returns None if it is deleted already.
    """
    async with context.services.store.read() as rows:
        known = await rows.branches.get(project.id, branch_id)
    if known is not None and known.deleted_at is not None:
        return None
    async with context.locked_transaction(
        LockScope(level=LockLevel.BRANCH, project_id=project.id, branch_id=branch_id)
    ) as rows:
        branch = await rows.branches.get(project.id, branch_id)
        if branch is None:
            raise NotFound.resource("branch")
        if branch.deleted_at is not None:
            context.audit.discard()
            return None
        seconds = context.services.settings.recoverable_branch_seconds
        removal = await deletion.delete_branch_rows(rows, branch, method="user", recoverable_seconds=seconds)
        operations = await context.enqueue(rows, *removal.new_operations)
    await context.invalidate_endpoints(*(endpoint.id for endpoint in removal.endpoints))
    return removal.branch, operations


async def _find_default_branch_id(context: Context, project: Project) -> BranchId:
    async with context.services.store.read() as rows:
        default = await rows.branches.get_default(project.id)
    if default is None:
        raise NotFound.resource("branch")
    return default.id


async def _check_quota(rows: Rows, project: Project, plan: Plan, more_endpoints: int) -> None:
    await check_branch_quota(rows, project.id, plan)
    await endpoints.check_endpoint_quota(rows, project.id, plan, more=more_endpoints)


async def _resolve_point(
    context: Context, rows: Rows, project: Project, parent: Branch, point: Point, *, wal_end: str | None
) -> RecoveryTarget | None:
    """Return the starting point; None for the current state of the parent."""
    if point.is_head:
        return None
    name = "parent_lsn" if point.lsn is not None else "parent_timestamp"
    return await points.resolve_point(context, rows, project, parent, point, name=name, wal_end=wal_end)


async def _add_branch(
    context: Context, rows: Rows, project: Project, parent: Branch, requested: RequestedBranch
) -> Branch:
    branches.check_can_have_children(parent)
    now = clock.now()
    branch = new_rows.new_branch(
        project,
        requested.name,
        now,
        parent_id=parent.id,
        parent_lsn=requested.point.lsn,
        parent_timestamp=requested.point.at,
        is_protected=requested.is_protected,
        init_source=requested.init_source or branches.PARENT_DATA,
        annotations=dict(requested.annotations),
        created_by=context.principal.user_id,
    )
    branch = branches.set_expiration(branch, requested.expires_at, now)
    branches.check_can_expire(branch, has_children=False)
    await check_name_is_free(rows, project, branch.name)
    try:
        await new_rows.add_branch_rows(rows, branch)
    except Duplicate:
        raise name_conflict(branch.name) from None
    return branch
