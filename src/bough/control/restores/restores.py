"""Restores: a branch gets the data of a point in its own history, or of another branch. A reset is a restore from
the parent.

What it has now is preserved as a branch of its own when a name is given for that. That branch is there from the
request on, so that its name is taken, and gets its data with the switch.
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
    """One transaction: the branch that preserves what is there now, the volume to come, and the work.

    The branch goes on serving until all is ready to be switched.
    """
    context.check_can_create()
    end = await points.read_wal_end(context, project, requested.source_id, requested.point)
    touch = LockScope(
        level=LockLevel.REPLACEMENT, project_id=project.id, branch_id=branch_id, source_id=requested.source_id
    )
    async with context.locked_transaction(touch) as rows:
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
            context, rows, project, source, requested.point, name=_name_of(requested.point), end=end
        )
        preserved = await _add_preserved_branch(context, rows, project, branch, requested.preserve_under_name)
        restore = await _plan_restore(rows, branch, source, target, preserved)
        served = [each for each in await rows.endpoints.list_in_branch(branch.id) if _is_active_or_starting(each)]
        operations = await context.enqueue(
            rows,
            *await _plan_unarchive_all(rows, branch, source),
            restore,
            *_plan_starts(served),
            after=await find_creating_operation(rows, source),
        )
        preserved_as = preserved.id if preserved else None
        context.audit.add_details(name=branch.name, source=source.id, preserved_as=preserved_as)
    return branch, operations


async def _add_preserved_branch(
    context: Context, rows: Rows, project: Project, branch: Branch, name: str | None
) -> Branch | None:
    """With a volume of passage: what it will have is still the branch's own."""
    if name is None:
        return None
    await check_branch_quota(rows, project.id, await context.project_plan(rows, project))
    await check_name_is_free(rows, project, name)
    now = clock.now()
    preserved = new_rows.new_branch(
        project,
        name,
        now,
        parent_id=branch.parent_id or branch.id,
        annotations={},
        created_by=context.principal.user_id,
    )
    await rows.lineages.add_volume(Volume(id=preserved.volume_id, project_id=project.id, created_at=now))
    await rows.branches.add(preserved)
    await inheritance.inherit(rows, branch, preserved, context.services.vault if project.store_passwords else None)
    return preserved


async def _plan_restore(
    rows: Rows, branch: Branch, source: Branch, target: RecoveryTarget, preserved: Branch | None
) -> NewOperation:
    """The work, and the rows of the volume that it makes."""
    volume_id, now = VolumeId.new(), clock.now()
    await rows.lineages.add_volume(Volume(id=volume_id, project_id=branch.project_id, created_at=now))
    await new_rows.add_lineage(rows, branch.project_id, volume_id, now)
    params = RestoreBranchParams(
        source_id=source.id,
        new_volume_id=volume_id,
        target=target,
        preserved_branch_id=preserved.id if preserved else None,
    )
    return NewOperation(RestoreBranch, branch.project_id, branch.id, params=params)


async def _plan_unarchive_all(rows: Rows, *used: Branch) -> list[NewOperation]:
    """They may have ancestors in common."""
    wishes = [wish for branch in used for wish in await archival.plan_unarchive(rows, branch)]
    return list({wish.branch_id: wish for wish in wishes}.values())


def _plan_starts(served: list[Endpoint]) -> list[NewOperation]:
    """The one that writes first: the others follow it."""
    in_order = sorted(served, key=lambda endpoint: endpoint.type is not EndpointType.READ_WRITE)
    return [
        NewOperation(StartCompute, each.project_id, each.branch_id, each.id, StartComputeParams(resumes=True))
        for each in in_order
    ]


def _is_active_or_starting(endpoint: Endpoint) -> bool:
    """Or on its way there."""
    return (endpoint.pending_state or endpoint.state) is EndpointState.ACTIVE and not endpoint.disabled


def _name_of(point: Point) -> str:
    return "source_lsn" if point.lsn is not None else "source_timestamp"
