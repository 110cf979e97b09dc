"""Schedules of snapshots: what a branch has, and what it shall have. `tasks/take_snapshots.py` follows them."""

from collections.abc import Sequence

from bough import clock
from bough.access import lookup
from bough.control.archiving import ensure_unarchived
from bough.control.desk import Desk
from bough.domain import snapshot, snapshot_schedule
from bough.domain.operation import Reach, Touch
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.domain.snapshot_schedule import Item, SnapshotSchedule
from bough.errors import RuleBroken
from bough.ids import BranchId


class SnapshotSchedules:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def set(self, held: Project, branch_id: BranchId, items: Sequence[Item]) -> None:
        """In the place of what was there; no items: none are taken any more. Those that were taken stay."""
        snapshot_schedule.check(items)
        async with self._desk.turn(Touch(reach=Reach.ENDPOINT, project_id=held.id, branch_id=branch_id)) as rows:
            project = await lookup.project(rows, self._desk.principal, held.id, to=Right.WRITE)
            branch = await lookup.branch(rows, project, branch_id)
            snapshot.check_is_root(branch, "A schedule of snapshots")
            _check_fits(items, (await self._desk.plan_for(rows, project)).snapshots)
            now = clock.now()
            next_at = snapshot_schedule.next_after(items, now)
            if next_at is None:
                await rows.snapshot_schedules.remove(branch.id)
            else:
                schedule = SnapshotSchedule(
                    branch_id=branch.id, project_id=project.id, items=items, next_at=next_at, updated_at=now
                )
                await rows.snapshot_schedules.put(schedule)
                await self._desk.enqueue(rows, *await ensure_unarchived(rows, branch))  # as long as it has one it stays


def _check_fits(items: Sequence[Item], most: int) -> None:
    held = snapshot_schedule.held_at_once(items)
    if held > most:
        raise RuleBroken(
            f"This schedule keeps {held} snapshots at a time, and the project's plan allows {most}. "
            "Take them less often, or keep them for a shorter time.",
            code="SNAPSHOTS_LIMIT_EXCEEDED",
        )
