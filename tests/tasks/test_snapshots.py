"""Scheduled and expiring snapshots: which operations are enqueued, and when."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from bough import clock
from bough.config import DEFAULT_PLANS, Settings
from bough.domain import history
from bough.domain.branch import Branch, BranchState
from bough.domain.history import HEAD, Point, RecoveryTarget
from bough.domain.operation import OperationKind
from bough.domain.project import Project
from bough.domain.snapshot import Snapshot
from bough.domain.snapshot_schedule import Frequency, ScheduleItem, SnapshotSchedule
from bough.engine.port import Capabilities, Engine
from bough.operations.actions import ALL_ACTIONS
from bough.operations.events import Events
from bough.operations.queue import OperationQueue
from bough.store.audit import AuditQuery
from bough.store.store import Store
from bough.tasks.expire_snapshots import ExpireSnapshots
from bough.tasks.take_snapshots import TakeSnapshots
from support.postgres import PostgresServer
from support.stores import EVERYDAY_BACKENDS, add_project, make_operation, make_project, open_store

FIVE = datetime(2026, 11, 17, 5, tzinfo=UTC)  # a Tuesday
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
DAILY = ScheduleItem(frequency=Frequency.DAILY, hour=5, retention_seconds=86_400)
HOURLY = ScheduleItem(frequency=Frequency.HOURLY, retention_seconds=3600)


@dataclass
class FakeEngine:
    """An engine that only tells whether something new can be created; `now` is the time of the test."""

    now: datetime = FIVE
    blocked_reason: str | None = None

    def capabilities(self) -> Capabilities:
        return Capabilities(
            installs={},
            has_isolation=False,
            limits_summary="",
            storage_driver="plain",
            creation_blocked_reason=self.blocked_reason,
        )


@dataclass
class ScheduledProject:
    """A project with a snapshot schedule on its root branch."""

    store: Store
    engine: FakeEngine
    project: Project
    branch: Branch

    def task(self, **settings: Any) -> TakeSnapshots:
        queue = OperationQueue(self.store, Events(), ALL_ACTIONS, 0.1)
        return TakeSnapshots(Settings(**settings), self.store, cast(Engine, self.engine), queue)

    async def run_at(self, now: datetime, **settings: Any) -> list[Snapshot]:
        """Run the task and return all snapshots, the oldest first."""
        self.engine.now = now
        await self.task(**settings).run()
        return await self.snapshots()

    async def snapshots(self) -> list[Snapshot]:
        async with self.store.read() as rows:
            return list(reversed(await rows.snapshots.list_in_project(self.project.id)))

    async def targets(self) -> list[RecoveryTarget | None]:
        async with self.store.read() as rows:
            operations = await rows.operations.list_open(self.project.id)
        assert all(each.kind is OperationKind.CREATE_SNAPSHOT for each in operations)
        assert all(each.parameters["source_id"] == self.branch.id for each in operations)
        return [history.decode_target(each.parameters) for each in operations]

    async def finish_operations(self) -> None:
        async with self.store.transaction() as rows:
            for each in await rows.operations.list_open(self.project.id):
                await rows.operations.save(replace(each, ended_at=self.engine.now))

    async def set_schedule(self, *items: ScheduleItem, next_at: datetime) -> None:
        schedule = SnapshotSchedule(
            branch_id=self.branch.id, project_id=self.project.id, items=items, next_at=next_at, updated_at=next_at
        )
        async with self.store.transaction() as rows:
            await rows.snapshot_schedules.replace(schedule)

    async def next_at(self) -> datetime:
        async with self.store.read() as rows:
            found = await rows.snapshot_schedules.get(self.branch.id)
        assert found is not None
        return found.next_at


@pytest.fixture(params=EVERYDAY_BACKENDS)
async def scheduled(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[ScheduledProject]:
    engine = FakeEngine()
    async with open_store(request.param, tmp_path, postgres_server) as store:
        monkeypatch.setattr(clock, "now", lambda: engine.now)
        project = make_project()
        branch, _ = await add_project(store, project, state=BranchState.READY)
        yield ScheduledProject(store, engine, project, branch)


async def test_when_its_moment_has_come_one_is_taken_once(scheduled: ScheduledProject) -> None:
    await scheduled.set_schedule(DAILY, next_at=FIVE)
    assert await scheduled.run_at(FIVE - MINUTE) == []
    (created,) = await scheduled.run_at(FIVE + MINUTE)
    assert (created.name, created.is_manual) == ("main daily 2026-11-17 05:00", False)
    assert (created.created_at, created.expires_at) == (FIVE + MINUTE, FIVE + MINUTE + DAY)
    assert await scheduled.targets() == [RecoveryTarget(volume_id=scheduled.branch.volume_id, point=HEAD)]
    assert await scheduled.next_at() == FIVE + DAY
    await scheduled.finish_operations()
    assert len(await scheduled.run_at(FIVE + 2 * MINUTE)) == 1
    assert len(await scheduled.run_at(FIVE + DAY)) == 2
    async with scheduled.store.read() as rows:
        lines = await rows.audit.page(AuditQuery(action="take_snapshot"), 10, None)
    assert [line.details["name"] for line in lines] == ["main daily 2026-11-18 05:00", "main daily 2026-11-17 05:00"]


async def test_one_without_an_end_is_kept(scheduled: ScheduledProject) -> None:
    await scheduled.set_schedule(ScheduleItem(frequency=Frequency.HOURLY), next_at=FIVE)
    (created,) = await scheduled.run_at(FIVE)
    assert created.expires_at is None


async def test_two_controls_take_it_once(scheduled: ScheduledProject) -> None:
    await scheduled.set_schedule(DAILY, HOURLY, next_at=FIVE)
    scheduled.engine.now = FIVE
    tasks = [scheduled.task() for _ in range(4)]
    await asyncio.gather(*(task.run() for task in tasks))
    names = {each.name for each in await scheduled.snapshots()}
    assert names == {"main daily 2026-11-17 05:00", "main hourly 2026-11-17 05:00"}


async def test_after_downtime_the_newest_moment_of_each_is_made_up_for(scheduled: ScheduledProject) -> None:
    """With the data of that time, as far as the history reaches."""
    weekly = ScheduleItem(frequency=Frequency.WEEKLY, hour=5, day=1)
    await scheduled.set_schedule(HOURLY, DAILY, weekly, next_at=FIVE - 7 * DAY)
    async with scheduled.store.transaction() as rows:
        await rows.lineages.set_history_start(scheduled.branch.volume_id, FIVE - HOUR, "0/100")
    created = await scheduled.run_at(FIVE + 30 * MINUTE)
    assert {(each.name, each.at) for each in created} == {
        ("main weekly 2026-11-16 05:00", None),
        ("main hourly 2026-11-17 05:00", FIVE),
        ("main daily 2026-11-17 05:00", FIVE),
    }
    points = [target.point for target in await scheduled.targets() if target]
    assert sorted(points, key=lambda point: not point.is_head) == [HEAD, Point(at=FIVE), Point(at=FIVE)]
    assert await scheduled.next_at() == FIVE + HOUR


async def test_without_history_what_is_there_now_is_taken(scheduled: ScheduledProject) -> None:
    await scheduled.set_schedule(DAILY, next_at=FIVE)
    async with scheduled.store.transaction() as rows:
        await rows.projects.save(replace(scheduled.project, history_retention_seconds=0))
    await scheduled.run_at(FIVE + HOUR)
    assert await scheduled.targets() == [RecoveryTarget(volume_id=scheduled.branch.volume_id, point=HEAD)]


async def test_what_cannot_be_taken_now_is_taken_when_it_can(scheduled: ScheduledProject) -> None:
    """The disk is full, or the branch has a running operation."""
    await scheduled.set_schedule(DAILY, next_at=FIVE)
    scheduled.engine.blocked_reason = "The disk is full."
    assert await scheduled.run_at(FIVE) == []
    scheduled.engine.blocked_reason = None
    busy = make_operation(
        scheduled.project.id, branch_id=scheduled.branch.id, kind=OperationKind.DELETE_BRANCH, parameters={}
    )
    async with scheduled.store.transaction() as rows:
        await rows.operations.add(busy)
    assert await scheduled.run_at(FIVE + MINUTE) == []
    await scheduled.finish_operations()
    assert len(await scheduled.run_at(FIVE + 2 * MINUTE)) == 1


async def test_a_full_plan_leaves_a_moment_out(scheduled: ScheduledProject) -> None:
    plans = {name: plan.model_copy(update={"snapshots": 1}) for name, plan in DEFAULT_PLANS.items()}
    await scheduled.set_schedule(DAILY, HOURLY, next_at=FIVE)
    (created,) = await scheduled.run_at(FIVE, plans=plans)
    assert created.name == "main daily 2026-11-17 05:00"
    assert await scheduled.next_at() == FIVE + HOUR


async def test_names_that_somebody_took_are_left_to_them(scheduled: ScheduledProject) -> None:
    await scheduled.set_schedule(DAILY, next_at=FIVE)
    (created,) = await scheduled.run_at(FIVE)
    await scheduled.set_schedule(DAILY, next_at=FIVE)
    assert await scheduled.run_at(FIVE + MINUTE) == [created], "this run was done already"
    async with scheduled.store.transaction() as rows:
        await rows.snapshots.save(replace(created, is_manual=True))
    await scheduled.set_schedule(DAILY, next_at=FIVE)
    assert [each.name for each in await scheduled.run_at(FIVE + MINUTE)][-1] == "main daily 2026-11-17 05:00 (2)"


@pytest.mark.parametrize("state", ["archived", "deleted", "project deleted"])
async def test_nothing_is_taken_of_what_is_away(scheduled: ScheduledProject, state: str) -> None:
    await scheduled.set_schedule(DAILY, next_at=FIVE)
    async with scheduled.store.transaction() as rows:
        if state == "archived":
            await rows.branches.save(replace(scheduled.branch, state=BranchState.ARCHIVED))
        elif state == "deleted":
            await rows.branches.save(replace(scheduled.branch, deleted_at=FIVE))
        else:
            await rows.projects.save(replace(scheduled.project, deleted_at=FIVE))
    assert await scheduled.run_at(FIVE) == []


async def test_those_whose_time_is_over_go(scheduled: ScheduledProject) -> None:
    await scheduled.set_schedule(DAILY, next_at=FIVE)
    (created,) = await scheduled.run_at(FIVE)
    task = ExpireSnapshots(scheduled.store, OperationQueue(scheduled.store, Events(), ALL_ACTIONS, 0.1))
    scheduled.engine.now = FIVE + DAY - MINUTE
    assert await task.run() == ""
    scheduled.engine.now = FIVE + DAY
    assert await task.run() == "", "it is still being created"
    await scheduled.finish_operations()
    assert await task.run() == "deleting 1 expired snapshots"
    assert await scheduled.snapshots() == []
    async with scheduled.store.read() as rows:
        (operations,) = await rows.operations.list_open(scheduled.project.id)
        (line,) = await rows.audit.page(AuditQuery(action="expire_snapshot"), 10, None)
    assert (operations.kind, operations.parameters["snapshot_id"]) == (OperationKind.DELETE_SNAPSHOT, created.id)
    assert (line.resource, line.project_id, line.org_id) == (created.id, scheduled.project.id, scheduled.project.org_id)
    assert await task.run() == ""
