"""Restoring a snapshot: a new branch is made of it, and may take the place of the branch that it was of.

In one step it takes that place as soon as it is made. In two steps it gets an endpoint of its own, to be looked at
by, and takes the place when its restore is finalized.
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
from bough.control.restores.finalize import check_unchanged, find_current_branch, plan_finalize, plan_takeover
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
    """What a caller asked for; None where they said nothing."""

    name: str | None = None
    target_id: BranchId | None = None  # whose place it takes
    should_finalize: bool = False  # at once


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredSnapshot:
    branch: Branch
    endpoints: list[Endpoint]
    operations: list[Operation]
    creator_name: str | None  # the name of who made it


async def restore_snapshot(
    context: Context, project: Project, snapshot_id: SnapshotId, requested: RequestedSnapshotRestore
) -> RestoredSnapshot:
    """One transaction: the branch, roles and databases of the one whose place it takes, and the work."""
    context.check_can_create()
    async with context.services.store.read() as rows:
        expected = await _target(rows, project, await find_snapshot(rows, project.id, snapshot_id), requested)
    branch_id = BranchId.new()
    touches = [LockScope(level=LockLevel.BRANCH, project_id=project.id, branch_id=branch_id, source_id=snapshot_id)]
    if requested.should_finalize and expected is not None:
        touches.append(plan_finalize(project.id, branch_id, expected.id).lock)
    async with context.locked_transaction(*touches) as rows:
        project = await lookup.project(rows, context.principal, project.id, right=Right.WRITE)
        snapshot = await find_snapshot(rows, project.id, snapshot_id)
        target = await _target(rows, project, snapshot, requested)
        check_unchanged(expected, target)
        plan = await context.project_plan(rows, project)
        await check_branch_quota(rows, project.id, plan)
        branch = replace(
            await _plan_branch(context, rows, project, snapshot, target=target, name=requested.name), id=branch_id
        )
        await new_rows.add_branch_rows(rows, branch)
        if target is not None:
            vault = context.services.vault if project.store_passwords else None
            await inheritance.inherit(rows, target, branch, vault, with_new_passwords=False)
        made = [] if requested.should_finalize else [await _add_endpoint(rows, project, branch, plan)]
        context.audit.add_details(name=branch.name, branch=branch.id)
        after = (
            await plan_takeover(rows, branch, target)
            if requested.should_finalize and target
            else endpoints.plan_starts(*made)
        )
        operations = await context.enqueue(rows, _create_operation(branch, snapshot), *after)
        creator = await rows.users.get(branch.created_by)
    for endpoint in made:
        await context.services.hostnames.publish(endpoint.id, project.region_id)
    return RestoredSnapshot(
        branch=branch, endpoints=made, operations=operations, creator_name=creator.name if creator else None
    )


async def _plan_branch(
    context: Context, rows: Rows, project: Project, snapshot: Snapshot, *, target: Branch | None, name: str | None
) -> Branch:
    """A root, unless it is to take the place of one that has a parent."""
    taken = {each.name for each in await rows.branches.list_in_project(project.id)}
    if name is not None and name in taken:
        raise name_conflict(name)
    branch = new_rows.new_branch(
        project,
        name or make_unique_name(f"{snapshot.name} restored", taken),
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


async def _target(rows: Rows, project: Project, snapshot: Snapshot, wish: RequestedSnapshotRestore) -> Branch | None:
    """The one that was asked for, or whoever stands in the place of the snapshot's own branch now."""
    if wish.target_id is not None:
        return await lookup.branch(rows, project, wish.target_id)
    found = await find_current_branch(rows, project.id, snapshot.branch_id)
    if found is None and wish.should_finalize:
        raise RuleViolation(
            "The branch of this snapshot is gone, so there is no place to take: give target_branch_id, or leave out "
            "finalize_restore."
        )
    return found


async def _add_endpoint(rows: Rows, project: Project, branch: Branch, plan: Plan) -> Endpoint:
    """To look at it by, until it takes those of the other."""
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
