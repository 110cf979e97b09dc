"""Takes scheduled snapshots.

Runs that were missed while control was down are made up for: once per schedule item, for its latest run, with the
branch's data of that time if its history still has it, else with its current data. The schedule advances in the
transaction that enqueues the operation, so no snapshot is taken twice.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from bough import clock, log
from bough.config import Settings
from bough.control.audit import write_platform_record
from bough.control.branches import points
from bough.control.branches.plan import find_creating_operation
from bough.control.restores import snapshots
from bough.domain import snapshot, snapshot_schedule
from bough.domain.branch import Branch, BranchState
from bough.domain.history import HEAD, Point, RecoveryTarget
from bough.domain.project import Project
from bough.domain.snapshot_schedule import ScheduledSnapshot, SnapshotSchedule
from bough.engine.port import EngineInspection
from bough.errors import Busy, Invalid, RuleViolation
from bough.ids import SnapshotId
from bough.operations.actions.create_snapshot import build_snapshot_creation_lock
from bough.operations.queue import OperationQueue
from bough.store.store import Rows, Store

BATCH_SIZE = 50
MAX_DELAY = timedelta(minutes=5)  # up to which the branch's current data is good enough
REQUEST_ID = "take-snapshots"

logger = log.get_logger(component="tasks")


class TakeSnapshots:
    interval = 5.0

    def __init__(self, settings: Settings, store: Store, engine: EngineInspection, queue: OperationQueue) -> None:
        self._settings = settings
        self._store = store
        self._engine = engine
        self._queue = queue

    async def run(self) -> str:
        async with self._store.read() as rows:
            due = await rows.snapshot_schedules.list_due(clock.now(), BATCH_SIZE)
        if due and (blocked_reason := self._engine.capabilities().creation_blocked_reason):
            logger.warning("snapshots_postponed", schedules=len(due), reason=blocked_reason)
            return ""  # they are taken when there is space again
        count = sum([await self._run_schedule(schedule) for schedule in due])
        return f"taking {count} scheduled snapshots" if count else ""

    async def _run_schedule(self, schedule: SnapshotSchedule) -> int:
        """Run the schedule; return how many snapshots are taken."""
        lock = build_snapshot_creation_lock(schedule.project_id, SnapshotId.new(), schedule.branch_id)
        try:
            async with self._queue.locked_transaction(lock, can_wait=False) as rows:
                fresh = await rows.snapshot_schedules.get(schedule.branch_id)
                now = clock.now()
                if fresh is None or fresh.next_at > now:
                    return 0  # it was changed, or another control process has run it
                next_at = snapshot_schedule.next_run_of_all(fresh.items, now)
                assert next_at is not None, "a schedule without items has no row"
                await rows.snapshot_schedules.replace(replace(fresh, next_at=next_at))
                return await self._take(rows, fresh, now)
        except Busy:
            return 0  # the next run tries again

    async def _take(self, rows: Rows, schedule: SnapshotSchedule, now: datetime) -> int:
        branch = await rows.branches.get(schedule.project_id, schedule.branch_id)
        project = await rows.projects.get(schedule.project_id)
        if branch is None or project is None or branch.deleted_at or project.deleted_at:
            return 0
        if branch.state is BranchState.ARCHIVED:  # unchanged since it was archived
            return 0
        slots = snapshot_schedule.list_due(schedule.items, schedule.next_at, now)
        taken = 0
        for slot in slots:
            try:
                taken += await self._take_one(rows, project, branch, slot, now)
            except RuleViolation as error:
                logger.warning(
                    "snapshot_not_taken", branch_id=branch.id, slot=slot.name(branch.name), reason=error.public_message
                )
        return taken

    async def _take_one(
        self, rows: Rows, project: Project, branch: Branch, slot: ScheduledSnapshot, now: datetime
    ) -> bool:
        name = slot.name(branch.name)
        known = await rows.snapshots.get_by_name(project.id, name)
        if known is not None and not known.is_manual:
            return False
        organization = await rows.organizations.get(project.org_id)
        if organization is not None:
            await snapshots.check_snapshot_quota(rows, project.id, self._settings.plan(organization.plan))
        target = await _resolve_target(rows, project, branch, slot, now)
        name = snapshot.make_unique_name(name, await rows.snapshots.list_names(project.id))
        expires_at = now + slot.retention if slot.retention else None
        created = snapshots.plan_snapshot(
            SnapshotId.new(), branch, target.point, name, now, expires_at=expires_at, is_manual=False
        )
        await snapshots.add_snapshot(rows, created)
        predecessor_id = await find_creating_operation(rows, branch)
        await self._queue.enqueue(
            rows, [snapshots.plan_create(created, target)], REQUEST_ID, predecessor_id=predecessor_id
        )
        await write_platform_record(
            rows,
            "take_snapshot",
            request_id=REQUEST_ID,
            project_id=project.id,
            resource=created.id,
            name=name,
            branch=branch.id,
        )
        return True


async def _resolve_target(
    rows: Rows, project: Project, branch: Branch, slot: ScheduledSnapshot, now: datetime
) -> RecoveryTarget:
    """Return the point of a missed run if it is long ago and still in the history, else HEAD."""
    head = RecoveryTarget(volume_id=branch.volume_id, point=HEAD)
    if now - slot.at <= MAX_DELAY or project.history_retention_seconds == 0:
        return head
    history = await points.load_history(rows, project, branch)
    try:
        return history.resolve_point(Point(at=slot.at), parameter_name=slot.name(branch.name), end_lsn=None)
    except Invalid:
        return head
