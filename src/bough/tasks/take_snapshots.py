"""Snapshots are taken when their schedules say so.

A moment that passed while nobody was there is made up for: once for each item of a schedule, for the newest of its
moments, with what the branch held then if its history still has that, else with what it holds now. The schedule moves
on in the transaction that writes the wish, so nothing is taken twice.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from bough import clock, log
from bough.config import Settings
from bough.control import points, snapshots
from bough.control.branch_planning import maker_of
from bough.control.recording import Record
from bough.domain import snapshot, snapshot_schedule
from bough.domain.audit import PLATFORM
from bough.domain.branch import Branch, BranchState
from bough.domain.history import HEAD, Point, Target
from bough.domain.project import Project
from bough.domain.snapshot_schedule import Slot, SnapshotSchedule
from bough.engine.port import Engine
from bough.errors import Busy, Invalid, RuleBroken
from bough.ids import SnapshotId
from bough.operations.queue import Queue
from bough.store.store import Rows, Store

AT_ONCE = 50
LATE = timedelta(minutes=5)  # up to which what a branch holds now is as good as what it held then
REQUEST_ID = "take-snapshots"

logger = log.get(room="tasks")


class TakeSnapshots:
    every = 5.0

    def __init__(self, settings: Settings, store: Store, engine: Engine, queue: Queue) -> None:
        self._settings = settings
        self._store = store
        self._engine = engine
        self._queue = queue

    async def run(self) -> str:
        async with self._store.read() as rows:
            due = await rows.snapshot_schedules.due(clock.now(), AT_ONCE)
        if due and (refusal := self._engine.capabilities().refuses_new):
            logger.warning("snapshots_wait", schedules=len(due), reason=refusal)
            return ""  # they are made up for when there is room
        count = sum([await self._follow(schedule) for schedule in due])
        return f"taking {count} scheduled snapshots" if count else ""

    async def _follow(self, schedule: SnapshotSchedule) -> int:
        """How many are taken."""
        touch = snapshots.making_of(schedule.project_id, SnapshotId.new(), schedule.branch_id).touch
        try:
            async with self._queue.turn(touch, patient=False) as rows:
                fresh = await rows.snapshot_schedules.get(schedule.branch_id)
                now = clock.now()
                if fresh is None or fresh.next_at > now:
                    return 0  # it was changed, or another control was here
                next_at = snapshot_schedule.next_after(fresh.items, now)
                assert next_at is not None, "a schedule without items has no row"
                await rows.snapshot_schedules.put(replace(fresh, next_at=next_at))
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
        slots = snapshot_schedule.due(schedule.items, schedule.next_at, now)
        taken = 0
        for slot in slots:
            try:
                taken += await self._take_one(rows, project, branch, slot, now)
            except RuleBroken as error:
                logger.warning(
                    "snapshot_not_taken", branch_id=branch.id, slot=slot.name(branch.name), reason=error.public
                )
        return taken

    async def _take_one(self, rows: Rows, project: Project, branch: Branch, slot: Slot, now: datetime) -> bool:
        name = slot.name(branch.name)
        known = await rows.snapshots.named(project.id, name)
        if known is not None and not known.is_manual:
            return False
        organization = await rows.organizations.get(project.org_id)
        if organization is not None:
            await snapshots.check_room(rows, project.id, self._settings.plan(organization.plan))
        target = await _target(rows, project, branch, slot, now)
        making = snapshots.making_of(project.id, SnapshotId.new(), branch.id)
        name = snapshot.free_name(name, await rows.snapshots.names_in(project.id))
        ends = now + slot.retention if slot.retention else None
        made = snapshots.planned(making, branch, target.point, name, now, expires_at=ends, is_manual=False)
        await snapshots.add(rows, made)
        behind = await maker_of(rows, branch)
        await self._queue.enqueue(rows, [snapshots.aimed(making, target)], REQUEST_ID, behind=behind)
        record = Record(PLATFORM, "take_snapshot", address="", request_id=REQUEST_ID, thing=made.id)
        record.about(org_id=project.org_id, project_id=project.id, name=name, branch=branch.id)
        await record.write(rows)
        return True


async def _target(rows: Rows, project: Project, branch: Branch, slot: Slot, now: datetime) -> Target:
    """What the branch held at the moment, if that was long ago and can still be gone back to."""
    head = Target(volume_id=branch.volume_id, point=HEAD)
    if now - slot.at <= LATE or project.history_retention_seconds == 0:
        return head
    past = await points.history_of(rows, project, branch)
    try:
        return past.target(Point(at=slot.at), name=slot.name(branch.name), end=None)
    except Invalid:
        return head
