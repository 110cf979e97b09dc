"""Restores a snapshot to a new branch, which can replace the branch that the snapshot was taken of.

In one step, the new branch replaces it as soon as it exists. In two steps, the new branch first gets its own endpoint
for inspection, and replaces the other when its restore is finalized.
"""

from dataclasses import dataclass, replace

from bough import clock
from bough.access import lookup
from bough.config import Plan
from bough.control.branches import inheritance, new_rows
from bough.control.branches.plan import check_branch_quota, name_conflict
from bough.control.context import Context
from bough.control.endpoints import endpoints
from bough.control.endpoints.plan import RequestedEndpoint, plan_endpoint
from bough.control.restores.finalization import check_unchanged, find_current_branch, plan_finalize, plan_takeover
from bough.control.restores.snapshots import find_snapshot
from bough.domain.branch import Branch
from bough.domain.endpoint import Endpoint, EndpointType
from bough.domain.history import HEAD, RecoveryTarget
from bough.domain.locks import LockLevel, LockScope
from bough.domain.operation import Operation
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.domain.snapshot import Snapshot, make_unique_name
from bough.errors import RuleViolation
from bough.ids import BranchId, SnapshotId
from bough.operations.action import NewOperation
from bough.operations.actions.create_branch import CreateBranch, CreateBranchParams
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedSnapshotRestore:
    """A request to restore a snapshot. None means that the caller omitted the value."""

    name: str | None = None
    target_id: BranchId | None = None  # the branch to replace
    should_finalize: bool = False  # replace it in the same step


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredSnapshot:
    branch: Branch
    endpoints: list[Endpoint]
    operations: list[Operation]
    creator_name: str | None


async def restore_snapshot(
    context: Context, project: Project, snapshot_id: SnapshotId, requested: RequestedSnapshotRestore
) -> RestoredSnapshot:
    """Add the branch, the roles and databases of the replaced one, and the operations in one transaction."""
    context.check_can_create()
    async with context.services.store.read() as rows:
        expected = await _resolve_target(rows, project, await find_snapshot(rows, project.id, snapshot_id), requested)
    branch_id = BranchId.new()
    locks = [LockScope(level=LockLevel.BRANCH, project_id=project.id, branch_id=branch_id, source_id=snapshot_id)]
    if requested.should_finalize and expected is not None:
        locks.append(plan_finalize(project.id, branch_id, expected.id).lock)
    async with context.locked_transaction(*locks) as rows:
        project = await lookup.project(rows, context.principal, project.id, right=Right.WRITE)
        snapshot = await find_snapshot(rows, project.id, snapshot_id)
        target = await _resolve_target(rows, project, snapshot, requested)
        check_unchanged(expected, target)
        plan = await context.load_project_plan(rows, project)
        await check_branch_quota(rows, project.id, plan)
        branch = replace(
            await _plan_branch(context, rows, project, snapshot, target=target, name=requested.name), id=branch_id
        )
        await new_rows.add_branch_rows(rows, branch)
        if target is not None:
            vault = context.services.vault if project.store_passwords else None
            await inheritance.inherit(rows, target, branch, vault, with_new_passwords=False)
        new_endpoints = [] if requested.should_finalize else [await _add_endpoint(rows, project, branch, plan)]
        context.audit.add_details(name=branch.name, branch=branch.id)
        after = (
            await plan_takeover(rows, branch, target)
            if requested.should_finalize and target
            else endpoints.plan_starts(*new_endpoints)
        )
        operations = await context.enqueue(rows, _create_operation(branch, snapshot), *after)
        creator = await rows.users.get(branch.created_by)
    for endpoint in new_endpoints:
        await context.services.hostnames.publish(endpoint.id, project.region_id)
    return RestoredSnapshot(
        branch=branch, endpoints=new_endpoints, operations=operations, creator_name=creator.name if creator else None
    )


async def _plan_branch(
    context: Context, rows: Rows, project: Project, snapshot: Snapshot, *, target: Branch | None, name: str | None
) -> Branch:
    """Return a root branch, unless it is to replace a branch that has a parent."""
    names = {each.name for each in await rows.branches.list_in_project(project.id)}
    if name is not None and name in names:
        raise name_conflict(name)
    branch = new_rows.new_branch(
        project,
        name or make_unique_name(f"{snapshot.name} restored", names),
        clock.now(),
        created_by=context.principal.user_id,
        annotations={},
        restored_from=snapshot.id,
    )
    branch = replace(branch, logical_size=snapshot.full_bytes)
    if target is None:
        return branch
    return replace(
        branch,
        parent_id=target.parent_id,
        parent_lsn=target.parent_lsn,
        parent_timestamp=target.parent_timestamp,
        is_protected=target.is_protected,
        restored_for=target.id,
    )


async def _resolve_target(
    rows: Rows, project: Project, snapshot: Snapshot, requested: RequestedSnapshotRestore
) -> Branch | None:
    """Return the requested branch, or the current replacement of the snapshot's branch."""
    if requested.target_id is not None:
        return await lookup.branch(rows, project, requested.target_id)
    found = await find_current_branch(rows, project.id, snapshot.branch_id)
    if found is None and requested.should_finalize:
        raise RuleViolation(
            "The branch of this snapshot no longer exists, so there is none to replace. Set target_branch_id, or omit "
            "finalize_restore."
        )
    return found


async def _add_endpoint(rows: Rows, project: Project, branch: Branch, plan: Plan) -> Endpoint:
    """Add an endpoint for inspecting the branch until it takes over those of the replaced one."""
    await endpoints.check_endpoint_quota(rows, project.id, plan, more=1)
    endpoint = plan_endpoint(
        project, branch, EndpointType.READ_WRITE, RequestedEndpoint(), plan=plan, now=branch.created_at
    )
    await endpoints.add_endpoint(rows, endpoint)
    return endpoint


def _create_operation(branch: Branch, snapshot: Snapshot) -> NewOperation:
    target = RecoveryTarget(volume_id=snapshot.volume_id, point=HEAD)
    params = CreateBranchParams(source_id=snapshot.id, target=target)
    return NewOperation(CreateBranch, branch.project_id, branch.id, params=params)
