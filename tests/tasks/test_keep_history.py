"""Who is looked at, when, and since when their history is wanted; what rows and the alarm say of it afterwards."""

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
from bough.control import history_notes
from bough.control.history_figures import HistoryFigures
from bough.control.history_notes import HistoryNote
from bough.domain.branch import Branch, BranchState, Lineage
from bough.domain.endpoint import EndpointState
from bough.domain.operation import OperationAction, OperationStatus
from bough.engine.port import Engine
from bough.ids import VolumeId
from bough.store.sqlite import SqliteStore
from bough.store.store import Store
from bough.tasks import keep_history
from bough.tasks.history_alarm import HistoryAlarm
from bough.tasks.keep_history import KeepHistory
from stores import NOON, a_branch, a_project, add_branch, add_project, an_operation
from tasks.history_hands import HistoryHands
from world import upgraded_store

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@dataclass
class Clock:
    seconds: float = 0.0


@dataclass
class Bench:
    store: Store
    hands: HistoryHands
    settings: Settings
    figures: HistoryFigures
    task: KeepHistory
    clock: Clock

    async def branch(self, *, active: bool = False, retention: int = 86400, **fields: Any) -> Branch:
        project = a_project(history_retention_seconds=retention)
        branch, endpoint = await add_project(self.store, project, **{"state": BranchState.READY, **fields})
        if active:
            async with self.store.transaction() as rows:
                await rows.endpoints.save(replace(endpoint, state=EndpointState.ACTIVE))
        return branch

    async def lineage(self, volume_id: VolumeId) -> Lineage:
        async with self.store.read() as rows:
            found = await rows.lineages.of_volume(volume_id)
        assert found is not None
        return found

    async def wrote(self, branch: Branch, position: int) -> None:
        async with self.store.transaction() as rows:
            await rows.branches.note_written(branch.id, position)

    async def after(self, seconds: float) -> list[VolumeId]:
        """Whom a run so much later looks at."""
        self.clock.seconds += seconds
        self.hands.asked.clear()
        await self.task.run()
        return [volume for volume, _ in self.hands.asked]


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    now = Clock()
    monkeypatch.setattr(clock, "now", lambda: NOON + timedelta(seconds=now.seconds))
    monkeypatch.setattr(clock, "monotonic", lambda: 1000.0 + now.seconds)
    (tmp_path / "store.db").write_bytes(upgraded_store())
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    hands, settings, figures = HistoryHands(), Settings(home=tmp_path), HistoryFigures()
    task = KeepHistory(store, cast(Engine, hands), HistoryAlarm(settings, figures))
    yield Bench(store, hands, settings, figures, task, now)
    await store.close()


async def test_history_is_kept_for_as_long_as_the_project_wants(bench: Bench) -> None:
    day, none = await bench.branch(), await bench.branch(retention=0)
    await bench.task.run()
    assert dict(bench.hands.asked) == {day.volume_id: NOON - DAY, none.volume_id: NOON}


async def test_what_writes_is_looked_at_when_it_wrote_and_what_sleeps_ever_more_rarely(bench: Bench) -> None:
    busy, asleep = await bench.branch(active=True), await bench.branch()
    assert set(await bench.after(0)) == {busy.volume_id, asleep.volume_id}
    assert await bench.after(5) == []
    await bench.wrote(busy, 100)
    assert await bench.after(5) == [busy.volume_id]
    assert await bench.after(5) == []
    looks = [await bench.after(60) for _ in range(5 * 60)]
    of_busy = [minute for minute, looked in enumerate(looks) if busy.volume_id in looked]
    of_asleep = [minute for minute, looked in enumerate(looks) if asleep.volume_id in looked]
    for found in (of_busy, of_asleep):
        assert found[0] == 29
        assert {later - earlier for earlier, later in itertools.pairwise(found)} == {60}


async def test_one_whose_window_was_changed_is_looked_at(bench: Bench) -> None:
    branch = await bench.branch()
    await bench.after(0)
    await hold(bench, branch, HOUR)
    assert await bench.after(60) == [branch.volume_id]
    assert bench.hands.asked[0][1] == NOON + timedelta(seconds=60) - HOUR


async def test_what_is_not_there_to_be_kept_is_left_alone(bench: Bench) -> None:
    await bench.branch(state=BranchState.INIT)
    await bench.branch(deleted_at=NOON)
    archived = await bench.branch(state=BranchState.ARCHIVED)
    recoverable = await bench.branch(deleted_at=NOON, recoverable_until=NOON + HOUR)
    assert set(await bench.after(0)) == {archived.volume_id, recoverable.volume_id}


async def test_what_open_work_was_told_to_go_back_to_is_left_alone_until_it_is_over(bench: Bench) -> None:
    branch = await bench.branch()
    work = an_operation(
        branch.project_id,
        action=OperationAction.CREATE_BRANCH,
        parameters={"target": {"volume_id": branch.volume_id, "lsn": "0/1"}},
    )
    async with bench.store.transaction() as rows:
        await rows.operations.add(work)
    assert await bench.after(0) == []
    async with bench.store.transaction() as rows:
        await rows.operations.save(replace(work, status=OperationStatus.FINISHED, ended_at=NOON))
    assert await bench.after(3600) == [branch.volume_id]


async def test_a_branch_that_is_being_removed_is_left_alone(bench: Bench) -> None:
    branch = await bench.branch(deleted_at=NOON, recoverable_until=NOON)
    work = an_operation(branch.project_id, action=OperationAction.DELETE_TIMELINE, branch_id=branch.id)
    async with bench.store.transaction() as rows:
        await rows.operations.add(work)
    assert await bench.after(0) == []


async def test_rows_say_how_it_stands_and_never_move_back(bench: Bench) -> None:
    branch = await bench.branch()
    volume = branch.volume_id
    bench.hands.answer(volume, began_at=NOON - HOUR, began_lsn="0/50", history_bytes=7)
    await bench.task.run()
    first = await bench.lineage(volume)
    assert (first.began_at, first.began_lsn, first.history_bytes) == (NOON, "0/50", 7)  # not before it was made
    bench.hands.answer(volume, began_at=NOON + HOUR, began_lsn="0/100", history_bytes=9)
    await bench.after(3600)
    second = await bench.lineage(volume)
    assert (second.began_at, second.began_lsn, second.history_bytes) == (NOON + HOUR, "0/100", 9)
    bench.hands.answer(volume, began_at=NOON, began_lsn="0/1", history_bytes=9)
    await bench.after(3600)
    assert await bench.lineage(volume) == second
    bench.hands.answer(volume, began_at=None, history_bytes=0)
    await bench.after(3600)
    lost = await bench.lineage(volume)
    assert (lost.began_at, lost.began_lsn, lost.history_bytes) == (None, None, 0)


async def restored(bench: Bench) -> tuple[Branch, VolumeId]:
    """Restored half an hour ago to what it was an hour before. What it was till then another branch has."""
    branch = await bench.branch()
    project = a_project(id=branch.project_id)
    kept = await add_branch(bench.store, a_branch(project, name="kept", is_default=False, state=BranchState.READY))
    async with bench.store.transaction() as rows:
        [now] = await rows.lineages.past(branch.id)
        [before] = await rows.lineages.past(kept.id)
        ended = replace(before.stretch, until_at=NOON - 1.5 * HOUR, until_lsn="0/500")
        await rows.lineages.write_past(branch.id, [ended, replace(now.stretch, from_at=NOON - HOUR / 2)])
        await rows.lineages.begin(kept.volume_id, NOON - 3 * HOUR, "0/1")
        await rows.lineages.begin(branch.volume_id, NOON - HOUR / 2, "0/500")
    return branch, kept.volume_id


async def hold(bench: Bench, branch: Branch, retention: timedelta) -> None:
    async with bench.store.transaction() as rows:
        project = await rows.projects.get(branch.project_id)
        assert project is not None
        seconds = round(retention.total_seconds())
        await rows.projects.save(replace(project, history_retention_seconds=seconds))


async def test_what_a_branch_was_before_a_restore_is_kept_as_far_as_its_window_leads_there(bench: Bench) -> None:
    branch, old = await restored(bench)
    for volume in (old, branch.volume_id):
        bench.hands.answer(volume, began_at=NOON - 3 * HOUR, began_lsn="0/1")
    await hold(bench, branch, HOUR)
    await bench.task.run()
    assert dict(bench.hands.asked) == {old: NOON - 1.5 * HOUR, branch.volume_id: NOON - HOUR}
    async with bench.store.read() as rows:
        assert len(await rows.lineages.past(branch.id)) == 2

    await hold(bench, branch, HOUR / 3)
    await bench.after(0.0)
    assert bench.hands.asked == []
    await bench.after(3600)
    later = NOON + HOUR - HOUR / 3
    assert dict(bench.hands.asked) == {old: later, branch.volume_id: later}
    async with bench.store.read() as rows:
        assert [past.lineage.volume_id for past in await rows.lineages.past(branch.id)] == [branch.volume_id]


async def test_a_base_that_takes_long_and_one_in_trouble_hold_up_nobody(bench: Bench) -> None:
    slow, next_in_line, broken, busy = [await bench.branch(active=True) for _ in range(4)]
    bench.task.every = 0.01
    for each in (slow, next_in_line):
        bench.hands.waits[each.volume_id] = asyncio.Event()
    bench.hands.refuses[broken.volume_id] = "The disk does not answer."
    running = asyncio.create_task(bench.task.run())
    for position in range(1, 4):
        await bench.wrote(busy, position)
        await bench.hands.seen(busy.volume_id, position)
    assert [volume for volume, _ in bench.hands.asked].count(slow.volume_id) == 1
    [first] = bench.hands.bases  # one at a time
    assert not running.done()
    for wait in bench.hands.waits.values():
        wait.set()
    await running
    assert set(bench.hands.bases) == {slow.volume_id, next_in_line.volume_id}
    assert bench.hands.bases[0] == first


async def test_the_alarm_is_heard_in_the_log_the_figures_and_by_the_doctor(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr("bough.tasks.history_alarm.logger.warning", lambda event, **f: lines.append((event, f)))
    well, waits, away = [await bench.branch() for _ in range(3)]
    fails = await bench.branch(active=True)
    much = bench.settings.history_alarm_bytes
    bench.hands.answer(well.volume_id, history_bytes=3, waiting_bytes=much - 1)
    bench.hands.answer(waits.volume_id, history_bytes=4, waiting_bytes=much)
    bench.hands.answer(fails.volume_id, trouble="The archive command fails.", waiting_bytes=1)
    bench.hands.refuses[away.volume_id] = "The disk does not answer."
    await bench.task.run()
    assert {(event, each["branch_id"], each["project_id"], each["waiting_bytes"]) for event, each in lines} == {
        ("history_falls_behind", waits.id, waits.project_id, much),
        ("history_falls_behind", fails.id, fails.project_id, 1),
        ("history_falls_behind", away.id, away.project_id, 0),
    }
    assert (bench.figures.history_bytes, bench.figures.waiting_bytes) == (7, 2 * much)
    notes = {note.volume_id: note for note in history_notes.read(bench.settings)}
    assert notes.keys() == {waits.volume_id, fails.volume_id, away.volume_id}
    assert notes[fails.volume_id] == HistoryNote(
        volume_id=fails.volume_id,
        project_id=fails.project_id,
        branch_id=fails.id,
        waiting_bytes=1,
        trouble="The archive command fails.",
    )

    await bench.wrote(fails, 1)
    assert await bench.after(5) == [fails.volume_id]
    assert len(lines) == 3  # at most one line a minute
    assert len(await bench.after(keep_history.IN_TROUBLE)) == 3
    assert len(lines) == 6
    bench.hands.answers.clear()
    bench.hands.refuses.clear()
    await bench.after(keep_history.IN_TROUBLE)
    assert history_notes.read(bench.settings) == []
    assert not bench.figures.troubles()


async def test_a_compute_that_has_wal_to_archive_is_looked_at_again_soon(bench: Bench) -> None:
    awake, asleep = await bench.branch(active=True), await bench.branch()
    for each in (awake, asleep):
        bench.hands.answer(each.volume_id, waiting_bytes=1)
    await bench.after(0)
    assert await bench.after(keep_history.IN_TROUBLE) == [awake.volume_id]
    assert await bench.after(keep_history.IN_TROUBLE) == [awake.volume_id]


async def test_one_that_is_gone_is_no_trouble_any_more(bench: Bench) -> None:
    branch = await bench.branch()
    bench.hands.answer(branch.volume_id, trouble="It fails.", waiting_bytes=1)
    await bench.task.run()
    assert bench.figures.troubles()
    async with bench.store.transaction() as rows:
        project = await rows.projects.get(branch.project_id)
        assert project is not None
        await rows.projects.save(replace(project, deleted_at=NOON, recoverable_until=NOON + DAY))
    await bench.after(3600)
    assert not bench.figures.troubles()
    assert history_notes.read(bench.settings) == []
