"""Snapshots are taken when their schedules say so.

A moment that passed while nobody was there is made up for: once for each item of a schedule, for the newest of its
moments, with what the branch held then if its history still has that, else with what it holds now. The schedule moves
on in the transaction that writes the wish, so nothing is taken twice.
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
from bough.operations.actions.create_snapshot import create_snapshot_lock
from bough.operations.queue import OperationQueue
from bough.store.store import Rows, Store

BATCH_SIZE = 50
MAX_DELAY = timedelta(minutes=5)  # up to which what a branch holds now is as good as what it held then
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
        if due and (refusal := self._engine.capabilities().creation_blocked_reason):
            logger.warning("snapshots_wait", schedules=len(due), reason=refusal)
            return ""  # they are made up for when there is room
        count = sum([await self._run_schedule(schedule) for schedule in due])
        return f"taking {count} scheduled snapshots" if count else ""

    async def _run_schedule(self, schedule: SnapshotSchedule) -> int:
        """How many are taken."""
        touch = create_snapshot_lock(schedule.project_id, SnapshotId.new(), schedule.branch_id)
        try:
            async with self._queue.locked_transaction(touch, can_wait=False) as rows:
                fresh = await rows.snapshot_schedules.get(schedule.branch_id)
                now = clock.now()
                if fresh is None or fresh.next_at > now:
                    return 0  # it was changed, or another control was here
                next_at = snapshot_schedule.next_run_of_all(fresh.items, now)
                assert next_at is not None, "a schedule without items has no row"
                await rows.snapshot_schedules.replace(replace(fresh, next_at=next_at))
                return await self._take(rows, fresh, now)
        except Busy:
            return 0  # the next beat tries again

    async def _take(self, rows: Rows, schedule: SnapshotSchedule, now: datetime) -> int:
        branch = await rows.branches.get(schedule.project_id, schedule.branch_id)
        project = await rows.projects.get(schedule.project_id)
        if branch is None or project is None or branch.deleted_at or project.deleted_at:
            return 0
        if branch.state is BranchState.ARCHIVED:  # nothing has changed since it was put away
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
        target = await _target(rows, project, branch, slot, now)
        name = snapshot.make_unique_name(name, await rows.snapshots.list_names(project.id))
        ends = now + slot.retention if slot.retention else None
        made = snapshots.plan_snapshot(
            SnapshotId.new(), branch, target.point, name, now, expires_at=ends, is_manual=False
        )
        await snapshots.add_snapshot(rows, made)
        behind = await find_creating_operation(rows, branch)
        await self._queue.enqueue(rows, [snapshots.plan_create(made, target)], REQUEST_ID, predecessor_id=behind)
        await write_platform_record(
            rows,
            "take_snapshot",
            request_id=REQUEST_ID,
            project_id=project.id,
            thing=made.id,
            name=name,
            branch=branch.id,
        )
        return True


async def _target(
    rows: Rows, project: Project, branch: Branch, slot: ScheduledSnapshot, now: datetime
) -> RecoveryTarget:
    """What the branch held at the moment, if that was long ago and can still be gone back to."""
    head = RecoveryTarget(volume_id=branch.volume_id, point=HEAD)
    if now - slot.at <= MAX_DELAY or project.history_retention_seconds == 0:
        return head
    past = await points.load_history(rows, project, branch)
    try:
        return past.resolve_point(Point(at=slot.at), parameter_name=slot.name(branch.name), end_lsn=None)
    except Invalid:
        return head
