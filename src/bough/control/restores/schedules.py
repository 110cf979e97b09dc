"""Snapshot schedules: read and replace. `tasks/take_snapshots.py` runs them."""

from collections.abc import Sequence

from bough import clock
from bough.access import lookup
from bough.control.context import Context
from bough.domain import snapshot, snapshot_schedule
from bough.domain.locks import LockLevel, LockScope
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.domain.snapshot_schedule import ScheduleItem, SnapshotSchedule
from bough.errors import RuleViolation
from bough.ids import BranchId
from bough.operations.archival import plan_unarchive


async def set_snapshot_schedule(
    context: Context, project: Project, branch_id: BranchId, items: Sequence[ScheduleItem]
) -> None:
    """Replace the schedule; without items no more snapshots are taken. Existing snapshots stay."""
    snapshot_schedule.check_schedule(items)
    async with context.locked_transaction(
        LockScope(level=LockLevel.ENDPOINT, project_id=project.id, branch_id=branch_id)
    ) as rows:
        project = await lookup.project(rows, context.principal, project.id, right=Right.WRITE)
        branch = await lookup.branch(rows, project, branch_id)
        snapshot.check_is_root(branch, "a snapshot schedule")
        _check_fits(items, (await context.load_project_plan(rows, project)).snapshots)
        now = clock.now()
        next_at = snapshot_schedule.next_run_of_all(items, now)
        if next_at is None:
            await rows.snapshot_schedules.remove(branch.id)
        else:
            schedule = SnapshotSchedule(
                branch_id=branch.id, project_id=project.id, items=items, next_at=next_at, updated_at=now
            )
            await rows.snapshot_schedules.replace(schedule)
            await context.enqueue(rows, *await plan_unarchive(rows, branch))  # a branch with a schedule is not archived


def _check_fits(items: Sequence[ScheduleItem], limit: int) -> None:
    count = snapshot_schedule.count_retained(items)
    if count > limit:
        raise RuleViolation(
            f"This schedule keeps {count} snapshots at a time, and the project's plan allows {limit}. "
            "Take them less often, or keep them for a shorter time.",
            code="SNAPSHOTS_LIMIT_EXCEEDED",
        )
