"""Snapshots: create, update, delete. `snapshot_restores` restores them to branches."""

from dataclasses import dataclass, replace
from datetime import datetime

from bough import clock
from bough.access import lookup
from bough.config import Plan
from bough.control.branches import points
from bough.control.branches.plan import find_creating_operation
from bough.control.context import Context
from bough.domain import snapshot
from bough.domain.branch import Branch, Volume
from bough.domain.history import HEAD, Point, RecoveryTarget
from bough.domain.locks import LockLevel, LockScope
from bough.domain.operation import Operation
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.domain.snapshot import Snapshot, SnapshotState
from bough.errors import Conflict, NotFound, RuleViolation
from bough.ids import BranchId, ProjectId, SnapshotId, VolumeId
from bough.operations.action import NewOperation
from bough.operations.actions.create_snapshot import CreateSnapshot, CreateSnapshotParams, build_snapshot_creation_lock
from bough.operations.actions.delete_snapshot import DeleteSnapshot, DeleteSnapshotParams
from bough.operations.archival import plan_unarchive
from bough.store.queries import Duplicate
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedSnapshot:
    """A request for a new snapshot. None means that the caller omitted the value."""

    point: Point = HEAD
    name: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChange:
    name: str | None = None
    sets_expiration: bool = False
    expires_at: datetime | None = None  # with `sets_expiration`, None removes the expiration


async def create_snapshot(
    context: Context, project: Project, branch_id: BranchId, requested: RequestedSnapshot
) -> tuple[Snapshot, list[Operation]]:
    """Add the snapshot's row and the operations in one transaction."""
    context.check_can_create()
    now = clock.now()
    expires_at = snapshot.check_expiry(requested.expires_at, now)
    wal_end = await points.read_wal_end(context, project, branch_id, requested.point)
    snapshot_id = SnapshotId.new()
    async with context.locked_transaction(build_snapshot_creation_lock(project.id, snapshot_id, branch_id)) as rows:
        project = await lookup.project(rows, context.principal, project.id, right=Right.WRITE)
        branch = await lookup.branch(rows, project, branch_id)
        snapshot.check_is_root(branch, "snapshots")
        await check_snapshot_quota(rows, project.id, await context.load_project_plan(rows, project))
        parameter_name = "lsn" if requested.point.lsn else "timestamp"
        target = await points.resolve_point(
            context, rows, project, branch, requested.point, name=parameter_name, wal_end=wal_end
        )
        name = requested.name or await _choose_default_name(rows, branch, requested.point.at or now)
        created = plan_snapshot(snapshot_id, branch, requested.point, name, now, expires_at=expires_at)
        await add_snapshot(rows, created)
        context.audit.add_details(resource=created.id, name=created.name, branch=branch.id)
        first = await plan_unarchive(rows, branch)
        predecessor_id = await find_creating_operation(rows, branch)
        operations = await context.enqueue(rows, *first, plan_create(created, target), after=predecessor_id)
    return created, operations


async def update_snapshot(
    context: Context, project: Project, snapshot_id: SnapshotId, change: SnapshotChange
) -> Snapshot:
    async with context.services.store.read() as rows:
        await find_snapshot(rows, project.id, snapshot_id)
    lock = LockScope(level=LockLevel.ENDPOINT, project_id=project.id, also_locked_id=snapshot_id)
    async with context.locked_transaction(lock) as rows:
        before = await find_snapshot(rows, project.id, snapshot_id)
        now = clock.now()
        after = replace(before, name=change.name or before.name, updated_at=now)
        if change.sets_expiration:
            after = replace(after, expires_at=snapshot.check_expiry(change.expires_at, now))
        if after.name != before.name and await rows.snapshots.get_by_name(project.id, after.name):
            raise _name_conflict(after.name)
        await rows.snapshots.save(after)
    return after


async def delete_snapshot(context: Context, project: Project, snapshot_id: SnapshotId) -> list[Operation]:
    """Hide the snapshot now; the operation removes its data."""
    async with context.services.store.read() as rows:
        await find_snapshot(rows, project.id, snapshot_id)
    deletion = plan_delete(project.id, snapshot_id)
    async with context.locked_transaction(deletion.lock) as rows:
        await mark_deleted(rows, await find_snapshot(rows, project.id, snapshot_id))
        return await context.enqueue(rows, deletion)


async def _choose_default_name(rows: Rows, branch: Branch, at: datetime) -> str:
    names = await rows.snapshots.list_names(branch.project_id)
    return snapshot.make_unique_name(snapshot.default_name(branch.name, at), names)


def plan_create(snapshot: Snapshot, target: RecoveryTarget) -> NewOperation:
    params = CreateSnapshotParams(snapshot_id=snapshot.id, source_id=snapshot.branch_id, target=target)
    return NewOperation(CreateSnapshot, snapshot.project_id, params=params)


def plan_snapshot(
    snapshot_id: SnapshotId,
    branch: Branch,
    point: Point,
    name: str,
    now: datetime,
    *,
    expires_at: datetime | None,
    is_manual: bool = True,
) -> Snapshot:
    return Snapshot(
        id=snapshot_id,
        project_id=branch.project_id,
        branch_id=branch.id,
        volume_id=VolumeId.new(),
        name=name,
        state=SnapshotState.INIT,
        is_manual=is_manual,
        created_at=now,
        updated_at=now,
        lsn=point.lsn,
        at=point.at,
        expires_at=expires_at,
    )


async def add_snapshot(rows: Rows, snapshot: Snapshot) -> None:
    if await rows.snapshots.get_by_name(snapshot.project_id, snapshot.name):
        raise _name_conflict(snapshot.name)
    await rows.lineages.add_volume(
        Volume(id=snapshot.volume_id, project_id=snapshot.project_id, created_at=snapshot.created_at)
    )
    try:
        await rows.snapshots.add(snapshot)
    except Duplicate:
        raise _name_conflict(snapshot.name) from None


def plan_delete(project_id: ProjectId, snapshot_id: SnapshotId) -> NewOperation:
    return NewOperation(DeleteSnapshot, project_id, params=DeleteSnapshotParams(snapshot_id=snapshot_id))


async def mark_deleted(rows: Rows, snapshot: Snapshot) -> None:
    now = clock.now()
    await rows.snapshots.save(replace(snapshot, deleted_at=now, updated_at=now))


async def find_snapshot(rows: Rows, project_id: ProjectId, snapshot_id: SnapshotId) -> Snapshot:
    found = await rows.snapshots.get(project_id, snapshot_id)
    if found is None or found.deleted_at is not None:
        raise NotFound.resource("snapshot")
    return found


async def check_snapshot_quota(rows: Rows, project_id: ProjectId, plan: Plan) -> None:
    """Check that the project may have one more snapshot."""
    if await rows.snapshots.count_in_project(project_id) >= plan.snapshots:
        raise RuleViolation(
            f"The project has {plan.snapshots} snapshots, the limit of its plan. Delete one, or change the plan.",
            code="SNAPSHOTS_LIMIT_EXCEEDED",
        )


def _name_conflict(name: str) -> Conflict:
    return Conflict(f"The project already has a snapshot named {name!r}. Choose another name.")
