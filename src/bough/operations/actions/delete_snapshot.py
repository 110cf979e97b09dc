"""Remove a snapshot for good: its data, then its rows."""

from functools import partial

from bough.domain.operation import OperationAction, Variant
from bough.domain.snapshot import SNAPSHOT_KEY, Snapshot
from bough.ids import SnapshotId
from bough.operations.action import Action, step
from bough.operations.context import ActionContext
from bough.operations.outcome import Done, Outcome
from bough.store.store import Rows


class DeleteSnapshot(Action):
    action = OperationAction.DELETE_TIMELINE
    variant = Variant.SNAPSHOT
    is_forward_only = True

    @step
    async def remove(self, ctx: ActionContext) -> Outcome:
        async with ctx.read() as rows:
            snapshot = await rows.snapshots.get(self.project_id, SnapshotId(self.operation.parameters[SNAPSHOT_KEY]))
        if snapshot is None:  # the whole project went meanwhile
            return Done("the snapshot is gone already", has_changed=False)
        await ctx.engine.ensure_absent(self.project_id, snapshot.volume_id)
        return Done("the snapshot is gone", writes=partial(_forget, snapshot))


async def _forget(snapshot: Snapshot, rows: Rows) -> None:
    await rows.snapshots.delete(snapshot)
