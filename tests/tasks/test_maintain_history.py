"""Which lineages are inspected and when, how far back their history is kept, and what rows and alarms say."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from bough import clock
from bough.config import Settings
from bough.control.platform import history_problems
from bough.control.platform.history_problems import HistoryProblem
from bough.control.platform.measurements import HistoryMeasurements
from bough.domain.branch import Branch, BranchState, Lineage
from bough.domain.endpoint import EndpointState
from bough.domain.operation import OperationKind, OperationStatus
from bough.engine.port import Engine
from bough.ids import VolumeId
from bough.store.sqlite import SqliteStore
from bough.store.store import Store
from bough.tasks import maintain_history
from bough.tasks.history_alarm import HistoryAlarm
from bough.tasks.maintain_history import MaintainHistory
from support.platform import read_migrated_store
from support.stores import NOON, add_branch, add_project, make_branch, make_operation, make_project
from tasks.fake_history_engine import FakeHistoryEngine

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@dataclass
class Clock:
    seconds: float = 0.0


@dataclass
class HistorySetup:
    store: Store
    history_engine: FakeHistoryEngine
    settings: Settings
    measurements: HistoryMeasurements
    task: MaintainHistory
    clock: Clock

    async def add_branch(self, *, active: bool = False, retention: int = 86400, **fields: Any) -> Branch:
        project = make_project(history_retention_seconds=retention)
        branch, endpoint = await add_project(self.store, project, **{"state": BranchState.READY, **fields})
        if active:
            async with self.store.transaction() as rows:
                await rows.endpoints.save(replace(endpoint, state=EndpointState.ACTIVE))
        return branch

    async def get_lineage(self, volume_id: VolumeId) -> Lineage:
        async with self.store.read() as rows:
            found = await rows.lineages.get_by_volume(volume_id)
        assert found is not None
        return found

    async def record_wal(self, branch: Branch, position: int) -> None:
        async with self.store.transaction() as rows:
            await rows.branches.record_wal_position(branch.id, position)

    async def run_after(self, seconds: float) -> list[VolumeId]:
        """Advance the clock, run the task and return the inspected volumes."""
        self.clock.seconds += seconds
        self.history_engine.prune_calls.clear()
        await self.task.run()
        return [volume for volume, _ in self.history_engine.prune_calls]


@pytest.fixture
async def history_setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HistorySetup]:
    now = Clock()
    monkeypatch.setattr(clock, "now", lambda: NOON + timedelta(seconds=now.seconds))
    monkeypatch.setattr(clock, "monotonic", lambda: 1000.0 + now.seconds)
    (tmp_path / "store.db").write_bytes(read_migrated_store())
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    history_engine, settings, measurements = FakeHistoryEngine(), Settings(home=tmp_path), HistoryMeasurements()
    task = MaintainHistory(store, cast(Engine, history_engine), HistoryAlarm(settings, measurements))
    yield HistorySetup(store, history_engine, settings, measurements, task, now)
    await store.close()


async def test_history_is_kept_for_as_long_as_the_project_wants(history_setup: HistorySetup) -> None:
    day, none = await history_setup.add_branch(), await history_setup.add_branch(retention=0)
    await history_setup.task.run()
    assert dict(history_setup.history_engine.prune_calls) == {day.volume_id: NOON - DAY, none.volume_id: NOON}


async def test_what_writes_is_looked_at_when_it_wrote_and_what_sleeps_ever_more_rarely(
    history_setup: HistorySetup,
) -> None:
    busy, suspended = await history_setup.add_branch(active=True), await history_setup.add_branch()
    assert set(await history_setup.run_after(0)) == {busy.volume_id, suspended.volume_id}
    assert await history_setup.run_after(5) == []
    await history_setup.record_wal(busy, 100)
    assert await history_setup.run_after(5) == [busy.volume_id]
    assert await history_setup.run_after(5) == []
    inspections = [await history_setup.run_after(60) for _ in range(5 * 60)]
    busy_minutes = [minute for minute, inspected in enumerate(inspections) if busy.volume_id in inspected]
    suspended_minutes = [minute for minute, inspected in enumerate(inspections) if suspended.volume_id in inspected]
    for found in (busy_minutes, suspended_minutes):
        assert found[0] == 29
        assert {later - earlier for earlier, later in itertools.pairwise(found)} == {60}


async def test_one_whose_window_was_changed_is_looked_at(history_setup: HistorySetup) -> None:
    branch = await history_setup.add_branch()
    await history_setup.run_after(0)
    await set_retention(history_setup, branch, HOUR)
    assert await history_setup.run_after(60) == [branch.volume_id]
    assert history_setup.history_engine.prune_calls[0][1] == NOON + timedelta(seconds=60) - HOUR


async def test_what_is_not_there_to_be_kept_is_left_alone(history_setup: HistorySetup) -> None:
    await history_setup.add_branch(state=BranchState.INIT)
    await history_setup.add_branch(deleted_at=NOON)
    archived = await history_setup.add_branch(state=BranchState.ARCHIVED)
    recoverable = await history_setup.add_branch(deleted_at=NOON, recoverable_until=NOON + HOUR)
    assert set(await history_setup.run_after(0)) == {archived.volume_id, recoverable.volume_id}


async def test_what_open_work_was_told_to_go_back_to_is_left_alone_until_it_is_over(
    history_setup: HistorySetup,
) -> None:
    branch = await history_setup.add_branch()
    operation = make_operation(
        branch.project_id,
        kind=OperationKind.CREATE_BRANCH,
        parameters={"target": {"volume_id": branch.volume_id, "lsn": "0/1"}},
    )
    async with history_setup.store.transaction() as rows:
        await rows.operations.add(operation)
    assert await history_setup.run_after(0) == []
    async with history_setup.store.transaction() as rows:
        await rows.operations.save(replace(operation, status=OperationStatus.FINISHED, ended_at=NOON))
    assert await history_setup.run_after(3600) == [branch.volume_id]


async def test_a_branch_that_is_being_removed_is_left_alone(history_setup: HistorySetup) -> None:
    branch = await history_setup.add_branch(deleted_at=NOON, recoverable_until=NOON)
    operation = make_operation(branch.project_id, kind=OperationKind.DELETE_BRANCH, branch_id=branch.id)
    async with history_setup.store.transaction() as rows:
        await rows.operations.add(operation)
    assert await history_setup.run_after(0) == []


async def test_rows_say_how_it_stands_and_never_move_back(history_setup: HistorySetup) -> None:
    branch = await history_setup.add_branch()
    volume = branch.volume_id
    history_setup.history_engine.set_result(volume, began_at=NOON - HOUR, began_lsn="0/50", history_bytes=7)
    await history_setup.task.run()
    first = await history_setup.get_lineage(volume)
    assert (first.began_at, first.began_lsn, first.history_bytes) == (NOON, "0/50", 7)  # not before its creation
    history_setup.history_engine.set_result(volume, began_at=NOON + HOUR, began_lsn="0/100", history_bytes=9)
    await history_setup.run_after(3600)
    second = await history_setup.get_lineage(volume)
    assert (second.began_at, second.began_lsn, second.history_bytes) == (NOON + HOUR, "0/100", 9)
    history_setup.history_engine.set_result(volume, began_at=NOON, began_lsn="0/1", history_bytes=9)
    await history_setup.run_after(3600)
    assert await history_setup.get_lineage(volume) == second
    history_setup.history_engine.set_result(volume, began_at=None, history_bytes=0)
    await history_setup.run_after(3600)
    lost = await history_setup.get_lineage(volume)
    assert (lost.began_at, lost.began_lsn, lost.history_bytes) == (None, None, 0)


async def add_restored_branch(setup: HistorySetup) -> tuple[Branch, VolumeId]:
    """Adds a branch that was restored half an hour ago to an hour before that, and a branch with its former data."""
    branch = await setup.add_branch()
    project = make_project(id=branch.project_id)
    kept = await add_branch(setup.store, make_branch(project, name="kept", is_default=False, state=BranchState.READY))
    async with setup.store.transaction() as rows:
        [now] = await rows.lineages.list_ranges(branch.id)
        [before] = await rows.lineages.list_ranges(kept.id)
        ended = replace(before.branch_lineage, until_at=NOON - 1.5 * HOUR, until_lsn="0/500")
        await rows.lineages.replace_branch_lineages(
            branch.id, [ended, replace(now.branch_lineage, from_at=NOON - HOUR / 2)]
        )
        await rows.lineages.set_history_start(kept.volume_id, NOON - 3 * HOUR, "0/1")
        await rows.lineages.set_history_start(branch.volume_id, NOON - HOUR / 2, "0/500")
    return branch, kept.volume_id


async def set_retention(setup: HistorySetup, branch: Branch, retention: timedelta) -> None:
    async with setup.store.transaction() as rows:
        project = await rows.projects.get(branch.project_id)
        assert project is not None
        seconds = round(retention.total_seconds())
        await rows.projects.save(replace(project, history_retention_seconds=seconds))


async def test_what_a_branch_was_before_a_restore_is_kept_as_far_as_its_window_leads_there(
    history_setup: HistorySetup,
) -> None:
    branch, old = await add_restored_branch(history_setup)
    for volume in (old, branch.volume_id):
        history_setup.history_engine.set_result(volume, began_at=NOON - 3 * HOUR, began_lsn="0/1")
    await set_retention(history_setup, branch, HOUR)
    await history_setup.task.run()
    assert dict(history_setup.history_engine.prune_calls) == {old: NOON - 1.5 * HOUR, branch.volume_id: NOON - HOUR}
    async with history_setup.store.read() as rows:
        assert len(await rows.lineages.list_ranges(branch.id)) == 2

    await set_retention(history_setup, branch, HOUR / 3)
    await history_setup.run_after(0.0)
    assert history_setup.history_engine.prune_calls == []
    await history_setup.run_after(3600)
    later = NOON + HOUR - HOUR / 3
    assert dict(history_setup.history_engine.prune_calls) == {old: later, branch.volume_id: later}
    async with history_setup.store.read() as rows:
        assert [lineage_range.lineage.volume_id for lineage_range in await rows.lineages.list_ranges(branch.id)] == [
            branch.volume_id
        ]


async def test_a_base_that_takes_long_and_one_in_trouble_hold_up_nobody(history_setup: HistorySetup) -> None:
    slow, next_in_line, broken, busy = [await history_setup.add_branch(active=True) for _ in range(4)]
    history_setup.task.interval = 0.01
    for each in (slow, next_in_line):
        history_setup.history_engine.base_events[each.volume_id] = asyncio.Event()
    history_setup.history_engine.errors[broken.volume_id] = "The disk does not answer."
    running = asyncio.create_task(history_setup.task.run())
    for position in range(1, 4):
        await history_setup.record_wal(busy, position)
        await history_setup.history_engine.wait_until_called(busy.volume_id, position)
    assert [volume for volume, _ in history_setup.history_engine.prune_calls].count(slow.volume_id) == 1
    [first] = history_setup.history_engine.base_calls  # one at a time
    assert not running.done()
    for base_event in history_setup.history_engine.base_events.values():
        base_event.set()
    await running
    assert set(history_setup.history_engine.base_calls) == {slow.volume_id, next_in_line.volume_id}
    assert history_setup.history_engine.base_calls[0] == first


async def test_the_alarm_is_heard_in_the_log_the_figures_and_by_the_doctor(
    history_setup: HistorySetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr("bough.tasks.history_alarm.logger.warning", lambda event, **f: lines.append((event, f)))
    healthy, waiting, unreachable = [await history_setup.add_branch() for _ in range(3)]
    failing = await history_setup.add_branch(active=True)
    alarm_bytes = history_setup.settings.history_alarm_bytes
    history_setup.history_engine.set_result(healthy.volume_id, history_bytes=3, waiting_bytes=alarm_bytes - 1)
    history_setup.history_engine.set_result(waiting.volume_id, history_bytes=4, waiting_bytes=alarm_bytes)
    history_setup.history_engine.set_result(failing.volume_id, problem="The archive command fails.", waiting_bytes=1)
    history_setup.history_engine.errors[unreachable.volume_id] = "The disk does not answer."
    await history_setup.task.run()
    assert {(event, each["branch_id"], each["project_id"], each["waiting_bytes"]) for event, each in lines} == {
        ("history_falls_behind", waiting.id, waiting.project_id, alarm_bytes),
        ("history_falls_behind", failing.id, failing.project_id, 1),
        ("history_falls_behind", unreachable.id, unreachable.project_id, 0),
    }
    assert (history_setup.measurements.history_bytes, history_setup.measurements.waiting_bytes) == (7, 2 * alarm_bytes)
    problems = {problem.volume_id: problem for problem in history_problems.read(history_setup.settings)}
    assert problems.keys() == {waiting.volume_id, failing.volume_id, unreachable.volume_id}
    assert problems[failing.volume_id] == HistoryProblem(
        volume_id=failing.volume_id,
        project_id=failing.project_id,
        branch_id=failing.id,
        waiting_bytes=1,
        trouble="The archive command fails.",
    )

    await history_setup.record_wal(failing, 1)
    assert await history_setup.run_after(5) == [failing.volume_id]
    assert len(lines) == 3  # at most one line per minute
    assert len(await history_setup.run_after(maintain_history.PROBLEM_INTERVAL)) == 3
    assert len(lines) == 6
    history_setup.history_engine.results.clear()
    history_setup.history_engine.errors.clear()
    await history_setup.run_after(maintain_history.PROBLEM_INTERVAL)
    assert history_problems.read(history_setup.settings) == []
    assert not history_setup.measurements.with_problems()


async def test_a_compute_that_has_wal_to_archive_is_looked_at_again_soon(history_setup: HistorySetup) -> None:
    running_branch, suspended = await history_setup.add_branch(active=True), await history_setup.add_branch()
    for each in (running_branch, suspended):
        history_setup.history_engine.set_result(each.volume_id, waiting_bytes=1)
    await history_setup.run_after(0)
    assert await history_setup.run_after(maintain_history.PROBLEM_INTERVAL) == [running_branch.volume_id]
    assert await history_setup.run_after(maintain_history.PROBLEM_INTERVAL) == [running_branch.volume_id]


async def test_one_that_is_gone_is_no_trouble_any_more(history_setup: HistorySetup) -> None:
    branch = await history_setup.add_branch()
    history_setup.history_engine.set_result(branch.volume_id, problem="It fails.", waiting_bytes=1)
    await history_setup.task.run()
    assert history_setup.measurements.with_problems()
    async with history_setup.store.transaction() as rows:
        project = await rows.projects.get(branch.project_id)
        assert project is not None
        await rows.projects.save(replace(project, deleted_at=NOON, recoverable_until=NOON + DAY))
    await history_setup.run_after(3600)
    assert not history_setup.measurements.with_problems()
    assert history_problems.read(history_setup.settings) == []
