"""Make a snapshot: a copy of a branch at a point, which no server opens.

Until it is published no branch can be made of it. One that could not be made is gone, and its name is free again.
"""

from dataclasses import replace
from functools import partial

from bough import clock
from bough.domain import history
from bough.domain.operation import SOURCE_KEY, OperationAction, Variant
from bough.domain.snapshot import SNAPSHOT_KEY, Snapshot, SnapshotState
from bough.engine.port import Origin
from bough.engine.spec import BranchSpec
from bough.ids import SnapshotId
from bough.operations.action import Action, step
from bough.operations.context import ActionContext, require_found
from bough.operations.outcome import Done, Outcome
from bough.store.store import Rows


class CreateSnapshot(Action):
    action = OperationAction.CREATE_BRANCH
    variant = Variant.SNAPSHOT

    @step(undo="drop")
    async def copy(self, ctx: ActionContext) -> Outcome:
        async with ctx.read() as rows:
            snapshot = require_found(await self._snapshot(rows), "snapshot")
            project = require_found(await rows.projects.get(self.project_id), "project")
        target = history.decode_target(self.operation.parameters)
        assert target is not None, "a snapshot is of something"
        spec = BranchSpec(
            project_id=project.id,
            volume_id=snapshot.volume_id,
            install=project.install,
            parent=target.volume_id,
            point=target.point,
            is_snapshot=True,
        )
        origin = await ctx.engine.ensure_branch(spec)
        own_bytes = await ctx.engine.measure_volume(snapshot.volume_id)
        return Done("the snapshot is ready", writes=partial(self.publish, origin, own_bytes))

    async def drop(self, ctx: ActionContext) -> None:
        async with ctx.read() as rows:
            snapshot = await self._snapshot(rows)
        if snapshot is not None:
            await ctx.engine.ensure_absent(self.project_id, snapshot.volume_id)
            async with ctx.transaction() as rows:
                await rows.snapshots.delete(snapshot)

    async def publish(self, origin: Origin, own_bytes: int | None, rows: Rows) -> None:
        """With the moment that was asked for, if one was: the last commit before it may be long ago."""
        snapshot = require_found(await self._snapshot(rows), "snapshot")
        branch = await rows.branches.get(self.project_id, self.operation.parameters[SOURCE_KEY])
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

    async def _snapshot(self, rows: Rows) -> Snapshot | None:
        return await rows.snapshots.get(self.project_id, SnapshotId(self.operation.parameters[SNAPSHOT_KEY]))
