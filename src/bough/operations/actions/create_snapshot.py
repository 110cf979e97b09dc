"""Create a snapshot: a copy of a branch at a point, which no server opens.

Branches can be created from it once it is published. If the copy fails, the snapshot is removed and its name is free
again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from bough import clock
from bough.domain.history import RecoveryTarget, decode_target, encode_target
from bough.domain.locks import LockLevel, LockRequest, LockScope
from bough.domain.operation import OperationKind
from bough.domain.snapshot import Snapshot, SnapshotState
from bough.engine.port import Origin
from bough.engine.spec import BranchSpec
from bough.ids import BranchId, ProjectId, SnapshotId
from bough.operations.action import Action, step
from bough.operations.context import ActionContext, require_found
from bough.operations.outcome import Done, Outcome
from bough.operations.params import Params
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSnapshotParams(Params):
    snapshot_id: SnapshotId
    source_id: BranchId
    target: RecoveryTarget

    def to_stored(self) -> dict[str, Any]:
        return {
            "snapshot_id": self.snapshot_id,
            "also_id": self.snapshot_id,  # versions before 0.2 lock this id
            "source_id": self.source_id,
            **encode_target(self.target),
        }

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any], version: int) -> Self:
        target = decode_target(stored)
        if target is None:
            raise ValueError("there is no target")
        return cls(
            snapshot_id=SnapshotId(stored["snapshot_id"]), source_id=BranchId(stored["source_id"]), target=target
        )


class CreateSnapshot(Action[CreateSnapshotParams]):
    kind = OperationKind.CREATE_SNAPSHOT
    params_type = CreateSnapshotParams

    @classmethod
    def locks(cls, params: CreateSnapshotParams, step: str | None) -> LockRequest:
        return _lock_request(params.snapshot_id, params.source_id)

    async def drop_volume(self, ctx: ActionContext) -> None:
        async with ctx.read() as rows:
            snapshot = await self._get_snapshot(rows)
        if snapshot is not None:
            await ctx.branch_engine.ensure_absent(self.project_id, snapshot.volume_id)
            async with ctx.transaction() as rows:
                await rows.snapshots.delete(snapshot)

    @step(undo=drop_volume)
    async def copy(self, ctx: ActionContext) -> Outcome:
        async with ctx.read() as rows:
            snapshot = require_found(await self._get_snapshot(rows), "snapshot")
            project = require_found(await rows.projects.get(self.project_id), "project")
        spec = BranchSpec(
            project_id=project.id,
            volume_id=snapshot.volume_id,
            install=project.install,
            source_volume_id=self.params.target.volume_id,
            point=self.params.target.point,
            is_snapshot=True,
        )
        origin = await ctx.branch_engine.ensure_branch(spec)
        own_bytes = await ctx.branch_engine.measure_volume(snapshot.volume_id)
        return Done("the snapshot is ready", writes=partial(self.publish, origin, own_bytes))

    async def publish(self, origin: Origin, own_bytes: int | None, rows: Rows) -> None:
        """A requested time is kept as requested: the last commit before it may be much older."""
        snapshot = require_found(await self._get_snapshot(rows), "snapshot")
        branch = await rows.branches.get(self.project_id, self.params.source_id)
        await rows.snapshots.save(
            replace(
                snapshot,
                state=SnapshotState.READY,
                lsn=origin.lsn or snapshot.lsn,
                at=snapshot.at or origin.at,
                full_bytes=branch.logical_size if branch else None,
                own_bytes=own_bytes,
                updated_at=clock.now(),
            )
        )

    async def _get_snapshot(self, rows: Rows) -> Snapshot | None:
        return await rows.snapshots.get(self.project_id, self.params.snapshot_id)


def build_snapshot_creation_lock(project_id: ProjectId, snapshot_id: SnapshotId, source_id: BranchId) -> LockScope:
    """Return the lock of an operation whose target is not known yet."""
    return LockScope.of(_lock_request(snapshot_id, source_id), project_id, None, None)


def _lock_request(snapshot_id: SnapshotId, source_id: BranchId) -> LockRequest:
    return LockRequest(level=LockLevel.BRANCH, source_id=source_id, also_locked_id=snapshot_id)
