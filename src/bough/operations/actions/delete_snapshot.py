"""Delete a snapshot for good: its data, then its rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from bough.domain.locks import LockLevel, LockRequest
from bough.domain.operation import OperationKind
from bough.domain.snapshot import Snapshot
from bough.ids import SnapshotId
from bough.operations.action import Action, step
from bough.operations.context import ActionContext
from bough.operations.outcome import Done, Outcome
from bough.operations.params import Params
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSnapshotParams(Params):
    snapshot_id: SnapshotId

    def to_stored(self) -> dict[str, Any]:
        return {"snapshot_id": self.snapshot_id, "also_id": self.snapshot_id}  # versions before 0.2 lock the latter

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any], version: int) -> Self:
        return cls(snapshot_id=SnapshotId(stored["snapshot_id"]))


class DeleteSnapshot(Action[DeleteSnapshotParams]):
    kind = OperationKind.DELETE_SNAPSHOT
    params_type = DeleteSnapshotParams
    is_forward_only = True

    @classmethod
    def locks(cls, params: DeleteSnapshotParams, step: str | None) -> LockRequest:
        return LockRequest(level=LockLevel.BRANCH, also_locked_id=params.snapshot_id)

    @step
    async def remove(self, ctx: ActionContext) -> Outcome:
        async with ctx.read() as rows:
            snapshot = await rows.snapshots.get(self.project_id, self.params.snapshot_id)
        if snapshot is None:  # the whole project was purged meanwhile
            return Done("the snapshot is already gone", has_changed=False)
        await ctx.branch_engine.ensure_absent(self.project_id, snapshot.volume_id)
        return Done("the snapshot is deleted", writes=partial(_delete_row, snapshot))


async def _delete_row(snapshot: Snapshot, rows: Rows) -> None:
    await rows.snapshots.delete(snapshot)
