"""Snapshots: create, list, change, delete, restore, finalize a restore."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from bough import ids
from bough.api.dependencies import ContextDep, IdempotentRoute, ReadableProject, ServicesDep, WritableProject
from bough.api.schemas import Body, BranchIdPath, Flag, IdText, Name, Text, View, to_response
from bough.api.v2.branch_bodies import Timestamp
from bough.api.v2.branch_views import BranchView
from bough.api.v2.endpoints import EndpointView
from bough.api.v2.operations import OperationsResponse, OperationView
from bough.control.branches import points
from bough.control.restores import finalization, snapshot_restores
from bough.control.restores import snapshots as control_snapshots
from bough.control.restores.snapshot_restores import RequestedSnapshotRestore
from bough.control.restores.snapshots import RequestedSnapshot, SnapshotChange
from bough.domain.operation import Operation
from bough.domain.snapshot import Snapshot
from bough.ids import BranchId, SnapshotId

router = APIRouter(tags=["Snapshot"], route_class=IdempotentRoute)

SnapshotIdPath = Annotated[str, Path(pattern=ids.PATTERN, alias="snapshot_id")]
NameQuery = Annotated[Text | None, Query(min_length=1, max_length=256)]


class SnapshotView(View):
    id: str
    name: str
    lsn: str | None
    timestamp: datetime | None
    source_branch_id: str
    created_at: datetime
    expires_at: datetime | None
    manual: bool
    full_size: int | None
    diff_size: int | None

    @classmethod
    def of(cls, snapshot: Snapshot) -> "SnapshotView":
        return cls(
            id=snapshot.id,
            name=snapshot.name,
            lsn=snapshot.lsn,
            timestamp=snapshot.at,
            source_branch_id=snapshot.branch_id,
            created_at=snapshot.created_at,
            expires_at=snapshot.expires_at,
            manual=snapshot.is_manual,
            full_size=snapshot.full_bytes,
            diff_size=snapshot.own_bytes,
        )


class SnapshotResponse(View):
    snapshot: SnapshotView


class SnapshotCreated(View):
    snapshot: SnapshotView
    operations: list[OperationView]


class SnapshotsResponse(View):
    snapshots: list[SnapshotView]


class SnapshotRestored(View):
    branch: BranchView
    endpoints: list[EndpointView]
    operations: list[OperationView]


class ChangedSnapshotBody(Body):
    name: Name | None = None
    expires_at: Timestamp | None = None


class SnapshotUpdate(Body):
    snapshot: ChangedSnapshotBody

    def to_snapshot_change(self) -> SnapshotChange:
        requested = self.snapshot
        return SnapshotChange(
            name=requested.name,
            sets_expiration="expires_at" in requested.model_fields_set,
            expires_at=requested.expires_at,
        )


class SnapshotRestoreBody(Body):
    name: Name | None = None
    target_branch_id: IdText | None = None
    finalize_restore: Flag = False


class FinalizeRestoreBody(Body):
    name: Name | None = None


@router.post("/projects/{project_id}/branches/{branch_id}/snapshot", response_model=SnapshotCreated)
async def create_snapshot(
    project: WritableProject,
    branch_id: BranchIdPath,
    context: ContextDep,
    lsn: Annotated[Text | None, Query()] = None,
    timestamp: Annotated[Timestamp | None, Query()] = None,
    name: NameQuery = None,
    expires_at: Annotated[Timestamp | None, Query()] = None,
) -> Response:
    """Create a snapshot of a root branch, of its current data or of a point in its history."""
    point = points.parse_point(lsn, timestamp, lsn_name="lsn", at_name="timestamp")
    request = RequestedSnapshot(point=point, name=name, expires_at=expires_at)
    created, operations = await control_snapshots.create_snapshot(context, project, BranchId(branch_id), request)
    return to_response(SnapshotCreated(snapshot=SnapshotView.of(created), operations=_to_views(operations)))


@router.get("/projects/{project_id}/snapshots", response_model=SnapshotsResponse)
async def list_snapshots(project: ReadableProject, services: ServicesDep) -> Response:
    """List the project's snapshots, newest first. A snapshot that is being created has no sizes yet."""
    async with services.store.read() as rows:
        snapshots = await rows.snapshots.list_in_project(project.id)
    return to_response(SnapshotsResponse(snapshots=[SnapshotView.of(each) for each in snapshots]))


@router.patch("/projects/{project_id}/snapshots/{snapshot_id}", response_model=SnapshotResponse)
async def update_snapshot(
    project: WritableProject, snapshot_id: SnapshotIdPath, body: SnapshotUpdate, context: ContextDep
) -> Response:
    """Change the name or expiration of a snapshot. With `expires_at: null`, it never expires."""
    changed = await control_snapshots.update_snapshot(
        context, project, SnapshotId(snapshot_id), body.to_snapshot_change()
    )
    return to_response(SnapshotResponse(snapshot=SnapshotView.of(changed)))


@router.delete("/projects/{project_id}/snapshots/{snapshot_id}", response_model=OperationsResponse, status_code=202)
async def delete_snapshot(project: WritableProject, snapshot_id: SnapshotIdPath, context: ContextDep) -> Response:
    """Delete a snapshot and its data. Branches that were created from it are kept."""
    operations = await control_snapshots.delete_snapshot(context, project, SnapshotId(snapshot_id))
    return to_response(OperationsResponse(operations=_to_views(operations)), 202)


@router.post("/projects/{project_id}/snapshots/{snapshot_id}/restore", response_model=SnapshotRestored)
async def restore_snapshot(
    project: WritableProject,
    snapshot_id: SnapshotIdPath,
    context: ContextDep,
    body: SnapshotRestoreBody | None = None,
    name: Annotated[Text | None, Query(min_length=1, max_length=256, deprecated=True)] = None,
) -> Response:
    """Create a branch from a snapshot. With `finalize_restore`, it replaces the snapshot's branch or
    `target_branch_id`. Without it, you can inspect the new branch first.
    """
    requested = body or SnapshotRestoreBody()
    request = RequestedSnapshotRestore(
        name=requested.name or name,
        target_id=BranchId(requested.target_branch_id) if requested.target_branch_id else None,
        should_finalize=requested.finalize_restore,
    )
    created = await snapshot_restores.restore_snapshot(context, project, SnapshotId(snapshot_id), request)
    return to_response(
        SnapshotRestored(
            branch=BranchView.new(created.branch, created.creator_name),
            endpoints=[EndpointView.of(each, project.region_id, context.services.hosts) for each in created.endpoints],
            operations=_to_views(created.operations),
        )
    )


@router.post("/projects/{project_id}/branches/{branch_id}/finalize_restore", response_model=OperationsResponse)
async def finalize_restore_branch(
    project: WritableProject, branch_id: BranchIdPath, context: ContextDep, body: FinalizeRestoreBody | None = None
) -> Response:
    """Finalize a restore from a snapshot: the restored branch takes over the endpoints and the name of the branch that
    it replaces. The replaced branch is renamed to `name`, by default `… (old)`.
    """
    requested = body or FinalizeRestoreBody()
    operations = await finalization.finalize_restore(context, project, BranchId(branch_id), requested.name)
    return to_response(OperationsResponse(operations=_to_views(operations)))


def _to_views(operations: list[Operation]) -> list[OperationView]:
    return [OperationView.of(operation) for operation in operations]
