"""Restores a branch to a point in its own history or to the data of another branch. A reset restores from the parent.

If a name is given, the current state is preserved as a new branch. That branch exists from the request on, which
reserves its name, and gets its data when the volumes are switched.
"""

from dataclasses import dataclass

from bough import clock
from bough.access import lookup
from bough.control.branches import inheritance, new_rows, points
from bough.control.branches.plan import check_branch_quota, check_name_is_free, find_creating_operation
from bough.control.context import Context
from bough.domain import restore_rules
from bough.domain.branch import Branch, Volume
from bough.domain.endpoint import Endpoint, EndpointState, EndpointType
from bough.domain.history import Point, RecoveryTarget
from bough.domain.locks import LockLevel, LockScope
from bough.domain.operation import Operation
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.ids import BranchId, VolumeId
from bough.operations import archival
from bough.operations.action import NewOperation
from bough.operations.actions.restore_branch import RestoreBranch, RestoreBranchParams
from bough.operations.actions.start_compute import StartCompute, StartComputeParams
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedRestore:
    source_id: BranchId
    point: Point
    preserve_under_name: str | None = None


async def restore_branch(
    context: Context, project: Project, branch_id: BranchId, requested: RequestedRestore
) -> tuple[Branch, list[Operation]]:
    """Add the preserving branch, the new volume and the operations in one transaction.

    The branch keeps serving until the new volume is ready.
    """
    context.check_can_create()
    wal_end = await points.read_wal_end(context, project, requested.source_id, requested.point)
    lock = LockScope(
        level=LockLevel.REPLACEMENT, project_id=project.id, branch_id=branch_id, source_id=requested.source_id
    )
    async with context.locked_transaction(lock) as rows:
        project = await lookup.project(rows, context.principal, project.id, right=Right.WRITE)
        branch = await lookup.branch(rows, project, branch_id)
        source = await lookup.branch(rows, project, requested.source_id)
        restore_rules.check_restorable(
            branch,
            is_own_history=source.id == branch.id,
            is_head=requested.point.is_head,
            has_preserve_name=requested.preserve_under_name is not None,
            has_children=await rows.branches.has_children(branch.id),
        )
        target = await points.resolve_point(
            context, rows, project, source, requested.point, name=_parameter_name(requested.point), wal_end=wal_end
        )
        preserving = await _add_preserving_branch(context, rows, project, branch, requested.preserve_under_name)
        restore = await _plan_restore(rows, branch, source, target, preserving)
        active_endpoints = [
            each for each in await rows.endpoints.list_in_branch(branch.id) if _is_active_or_starting(each)
        ]
        operations = await context.enqueue(
            rows,
            *await _plan_unarchive_all(rows, branch, source),
            restore,
            *_plan_starts(active_endpoints),
            after=await find_creating_operation(rows, source),
        )
        preserved_as = preserving.id if preserving else None
        context.audit.add_details(name=branch.name, source=source.id, preserved_as=preserved_as)
    return branch, operations


async def _add_preserving_branch(
    context: Context, rows: Rows, project: Project, branch: Branch, name: str | None
) -> Branch | None:
    """Add the branch with a placeholder volume: its future data still belongs to the restored branch."""
    if name is None:
        return None
    await check_branch_quota(rows, project.id, await context.load_project_plan(rows, project))
    await check_name_is_free(rows, project, name)
    now = clock.now()
    preserving = new_rows.new_branch(
        project,
        name,
        now,
        parent_id=branch.parent_id or branch.id,
        annotations={},
        created_by=context.principal.user_id,
    )
    await rows.lineages.add_volume(Volume(id=preserving.volume_id, project_id=project.id, created_at=now))
    await rows.branches.add(preserving)
    await inheritance.inherit(rows, branch, preserving, context.services.vault if project.store_passwords else None)
    return preserving


async def _plan_restore(
    rows: Rows, branch: Branch, source: Branch, target: RecoveryTarget, preserving: Branch | None
) -> NewOperation:
    """Return the restore operation and add the rows of its new volume."""
    volume_id, now = VolumeId.new(), clock.now()
    await rows.lineages.add_volume(Volume(id=volume_id, project_id=branch.project_id, created_at=now))
    await new_rows.add_lineage(rows, branch.project_id, volume_id, now)
    params = RestoreBranchParams(
        source_id=source.id,
        new_volume_id=volume_id,
        target=target,
        preserving_branch_id=preserving.id if preserving else None,
    )
    return NewOperation(RestoreBranch, branch.project_id, branch.id, params=params)


async def _plan_unarchive_all(rows: Rows, *branches: Branch) -> list[NewOperation]:
    """Unarchive the branches without repeating common ancestors."""
    planned = [each for branch in branches for each in await archival.plan_unarchive(rows, branch)]
    return list({each.branch_id: each for each in planned}.values())


def _plan_starts(endpoints: list[Endpoint]) -> list[NewOperation]:
    """Start the primary first: read replicas follow it."""
    in_order = sorted(endpoints, key=lambda endpoint: endpoint.type is not EndpointType.READ_WRITE)
    return [NewOperation.for_endpoint(StartCompute, each, params=StartComputeParams(resumes=True)) for each in in_order]


def _is_active_or_starting(endpoint: Endpoint) -> bool:
    return (endpoint.pending_state or endpoint.state) is EndpointState.ACTIVE and not endpoint.disabled


def _parameter_name(point: Point) -> str:
    return "source_lsn" if point.lsn is not None else "source_timestamp"
