"""Named queries on snapshot schedules."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bough.domain import snapshot_schedule
from bough.domain.snapshot_schedule import SnapshotSchedule
from bough.ids import BranchId, ProjectId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import to_columns
from bough.store.tables import branches, projects, snapshot_schedules

_ONE = sa.select(snapshot_schedules).where(equals_param(snapshot_schedules.c.branch_id))
_DUE = (
    sa.select(snapshot_schedules)
    .join(branches, branches.c.id == snapshot_schedules.c.branch_id)
    .join(projects, projects.c.id == snapshot_schedules.c.project_id)
    .where(
        snapshot_schedules.c.next_at <= sa.bindparam("now", type_=snapshot_schedules.c.next_at.type),
        branches.c.deleted_at.is_(None),
        projects.c.deleted_at.is_(None),
    )
    .order_by(snapshot_schedules.c.next_at)
    .limit(sa.bindparam("row_limit", type_=sa.Integer()))
)


class SnapshotSchedules(Queries):
    async def get(self, branch_id: BranchId) -> SnapshotSchedule | None:
        row = await self._one(_ONE, branch_id=branch_id)
        return _to_schedule(row) if row else None

    async def replace(self, schedule: SnapshotSchedule) -> None:
        """Replace the schedule of the branch."""
        await self.remove(schedule.branch_id)
        columns = {**to_columns(schedule), "items": snapshot_schedule.encode_items(schedule.items)}
        await self._insert(snapshot_schedules, columns)

    async def remove(self, branch_id: BranchId) -> None:
        await self._run(sa.delete(snapshot_schedules).where(snapshot_schedules.c.branch_id == branch_id))

    async def list_due(self, now: datetime, limit: int) -> list[SnapshotSchedule]:
        """Return due schedules of branches and projects that are not deleted."""
        return [_to_schedule(row) for row in await self._all(_DUE, now=now, row_limit=limit)]


def _to_schedule(row: Mapping[str, Any]) -> SnapshotSchedule:
    return SnapshotSchedule(
        branch_id=BranchId(row["branch_id"]),
        project_id=ProjectId(row["project_id"]),
        items=snapshot_schedule.decode_items(row["items"]),
        next_at=row["next_at"],
        updated_at=row["updated_at"],
    )
