"""Keeping histories: when bases are taken, what goes and what stays, and volumes of which only the history is left."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from bough import clock
from bough.config import Settings, is_root
from bough.domain.history import HEAD, Point
from bough.engine.local.engine import LocalEngine
from bough.engine.local.history import maintenance
from bough.engine.local.history.bases import Base
from bough.engine.local.installs.installs import Install
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.port import EngineError, HistoryStatus, Readiness, VolumeHasDependents
from bough.postgres import archiver, wal
from engine.point_in_time import (
    CommitMark,
    insert_numbers,
    numbers_up_to,
    read_numbers,
    read_numbers_at,
    start_branch_at,
    write_filler_wal,
)
from support.engine_home import Compute, EngineHome, home_on_driver, kill_process
from support.home_consistency import HomeConsistency

DAY = timedelta(days=1)
OTHERS = ("plain", "btrfs", "btrfs+wal")


@pytest.fixture(autouse=True)
def wants_every_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_MIN_RETENTION", timedelta(0))


# Those that have a home of everybody's are on plain.
@pytest.fixture(scope="module", params=["reflink", *(pytest.param(each, marks=pytest.mark.long) for each in OTHERS)])
def kept_settings(request: pytest.FixtureRequest) -> Iterator[Settings]:
    with home_on_driver(request.param, history_base_bytes=16 * 1024**2) as settings:
        yield settings


@pytest.fixture
async def any_home(kept_settings: Settings) -> AsyncIterator[EngineHome]:
    async with EngineHome.open(kept_settings) as home:
        yield home


async def keep(compute: Compute, since: datetime | None = None) -> HistoryStatus:
    wanted = since or clock.now() - DAY
    return await compute.home.engine.apply_retention(compute.spec.volume_id, wanted)


def bases(compute: Compute) -> list[Base]:
    return compute.home.engine._history._bases.list_bases(compute.spec.volume_id)


def segments(compute: Compute) -> list[str]:
    found = compute.home.engine._history._archives.list_wal_files(compute.spec.volume_id)
    return sorted(filter(wal.is_segment, found))


def record(compute: Compute) -> VolumeRecord:
    found = compute.home.engine._history._archives.read_record(compute.spec.volume_id)
    assert found is not None
    return found


async def retire(compute: Compute) -> None:
    await compute.home.engine.retire_volume(compute.spec.project_id, compute.spec.volume_id)


async def emit(compute: Compute, megabytes: int) -> None:
    """So much WAL, and nothing else."""
    async with compute.connect() as db:
        for _ in range(megabytes):
            await db.execute("select pg_logical_emit_message(false, 'test', repeat('x', 1048576))")


async def another_control(home: EngineHome) -> None:
    await home.engine.close()
    home.engine = LocalEngine(home.settings)
    await home.engine.prepare()


async def test_a_base_is_taken_after_so_much_wal_and_older_ones_go(any_home: EngineHome) -> None:
    compute = await any_home.create_compute()
    marks = await insert_numbers(compute, 2)
    kept = await keep(compute)
    assert bases(compute) == []  # it stands on the template
    assert kept.began_at == datetime.fromisoformat(str(record(compute).made_at))
    assert kept.began_lsn is not None
    assert kept.trouble is None

    for count in (1, 2):
        await emit(compute, 60)
        marks += await insert_numbers(compute, 2)
        kept = await keep(compute)
        assert len(bases(compute)) == count
        assert kept.history_bytes > 16 * 1024**2
    marks += await insert_numbers(compute, 2)
    for mark in marks[::2]:
        assert await read_numbers_at(compute, mark.points[0]) == numbers_up_to(mark)

    first, second = bases(compute)
    between = first.at + (second.at - first.at) / 2
    kept = await keep(compute, between)
    assert bases(compute) == [first, second]
    assert min(segments(compute)) == first.first_segment
    assert (kept.began_at, kept.began_lsn) == (first.at, first.lsn)
    assert record(compute).begins_itself
    kept = await keep(compute, second.at)
    assert bases(compute) == [second]
    assert min(segments(compute)) >= second.first_segment
    assert (kept.began_at, kept.began_lsn) == (second.at, second.lsn)
    assert await read_numbers_at(compute, marks[-1].points[1]) == numbers_up_to(marks[-1])
    assert await read_numbers_at(compute, Point(lsn=second.lsn)) == numbers_up_to(marks[-3])
    with pytest.raises(EngineError, match="does not go back") as refused:
        await read_numbers_at(compute, marks[0].points[0])
    assert not refused.value.transient


async def test_who_wants_no_history_has_none(home: EngineHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_MIN_RETENTION", timedelta(seconds=5))
    compute = await home.create_compute()
    await insert_numbers(compute, 2)
    await emit(compute, 20)
    kept = await keep(compute, clock.now())
    assert bases(compute) == []
    assert (kept.began_at, kept.began_lsn) == (None, None)
    assert segments(compute) == []
    assert record(compute).begins_itself
    later = await keep(compute)  # who wants one again has one from then on
    (base,) = bases(compute)
    assert later.began_at == base.at
    assert later.began_lsn == base.lsn
    marks = await insert_numbers(compute, 2)
    assert await read_numbers_at(compute, marks[0].points[1]) == numbers_up_to(marks[0])


async def test_a_branch_of_an_earlier_version_gets_a_base_at_once(home: EngineHome) -> None:
    compute = await home.create_compute()
    await insert_numbers(compute, 2)
    folder = home.engine._volumes.folder(compute.spec.volume_id)
    folder.write_record(replace(record(compute), first_segment=None, made_at=None))
    kept = await keep(compute)
    (base,) = bases(compute)
    assert kept.began_at == base.at
    marks = await insert_numbers(compute, 1)
    assert await read_numbers_at(compute, marks[0].points[0]) == numbers_up_to(marks[0])


async def test_a_child_keeps_what_it_stands_on_until_it_has_a_base_of_its_own(any_home: EngineHome) -> None:
    parent = await any_home.create_compute()
    before = await insert_numbers(parent, 3)
    child = await any_home.create_child(parent)
    grandchild = await any_home.create_child(child)
    await insert_numbers(parent, 1)
    assert await child.start() is Readiness.READY
    own = await insert_numbers(child, 3)
    await emit(parent, 60)
    await keep(parent)
    assert len(bases(parent)) == 1
    needed = [name for name in segments(parent) if name < str(record(child).first_segment)]
    await keep(parent, clock.now())
    assert [name for name in segments(parent) if name in needed] == needed
    assert not record(parent).begins_itself
    assert own[0].number == before[-1].number + 1
    assert await read_numbers_at(child, own[1].points[0]) == numbers_up_to(own[1])
    assert await read_numbers_at(grandchild, HEAD) == numbers_up_to(before[-1])
    await child.suspend()
    await parent.suspend()
    with pytest.raises(VolumeHasDependents):
        await child.delete()
    with pytest.raises(VolumeHasDependents) as refused:
        await parent.delete()
    assert refused.value.transient

    for each in (grandchild, child):
        kept = await any_home.engine.ensure_history_started(each.spec.project_id, each.spec.volume_id)
        assert kept.began_at is not None
        assert record(each).begins_itself
    await retire(parent)
    await keep(parent, clock.now())
    (base,) = bases(parent)
    assert min(segments(parent)) >= base.first_segment
    await parent.delete()
    assert await child.start() is Readiness.READY
    later = await insert_numbers(child, 2)
    assert await read_numbers_at(child, later[0].points[1]) == numbers_up_to(later[0])


async def test_a_child_that_writes_gets_a_base_of_its_own_in_time(
    home: EngineHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = await home.create_compute()
    await insert_numbers(parent, 1)
    sleeper, writer = await home.create_child(parent), await home.create_child(parent)
    assert await writer.start() is Readiness.READY
    await emit(writer, 1)
    monkeypatch.setattr(home.engine._volumes.driver, "name", "reflink")  # where a base costs little
    for each in (sleeper, writer):
        await keep(each)
        assert bases(each) == []
    monkeypatch.setattr(maintenance, "_OWN_BASE_AFTER", timedelta(0))
    await keep(sleeper)
    assert bases(sleeper) == []
    await keep(writer)
    assert len(bases(writer)) == 1
    # One that wrote nothing for as long as history is kept has one that is as old as itself.
    began = record(sleeper).origin.at
    assert began is not None
    kept = await keep(sleeper, began)
    assert kept.began_at == began
    assert [each.at for each in bases(sleeper)] == [began]
    assert record(sleeper).begins_itself


async def test_no_base_is_taken_where_there_is_no_room(home: EngineHome, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = await home.create_compute()
    folder = home.engine._volumes.folder(compute.spec.volume_id)
    folder.write_record(replace(record(compute), first_segment=None))
    monkeypatch.setattr(
        home.engine._history._maintenance,
        "_explain_shortage",
        lambda: "The disk has 1 MB of free space: free some space.",
    )
    kept = await keep(compute)
    assert bases(compute) == []
    assert kept.trouble == (
        "No base is taken, so that a restore will take longer. The disk has 1 MB of free space: free some space."
    )
    await compute.suspend()
    with pytest.raises(EngineError, match="free space"):
        await home.engine.ensure_history_started(compute.spec.project_id, compute.spec.volume_id)


async def test_a_history_begins_anew_with_what_a_volume_holds(home: EngineHome) -> None:
    compute = await home.create_compute()
    marks = await insert_numbers(compute, 2)
    volume = (compute.spec.project_id, compute.spec.volume_id)
    with pytest.raises(EngineError, match="still runs"):
        await home.engine.ensure_history_started(*volume)
    await compute.suspend()
    kept = await home.engine.ensure_history_started(*volume)
    (base,) = bases(compute)
    assert kept.began_at == base.at
    assert await home.engine.ensure_history_started(*volume) == kept
    assert bases(compute) == [base]
    assert kept.began_lsn is not None
    assert await read_numbers_at(compute, Point(lsn=kept.began_lsn)) == numbers_up_to(marks[-1])
    with pytest.raises(EngineError, match="does not go back"):
        await read_numbers_at(compute, marks[0].points[0])
    assert await compute.start() is Readiness.READY
    more = await insert_numbers(compute, 2)
    assert await read_numbers_at(compute, more[0].points[0]) == numbers_up_to(more[0])


@pytest.mark.parametrize("ends", ["sleeps", "is killed", "was never opened"])
async def test_of_a_retired_volume_every_commit_stays(home: EngineHome, ends: str) -> None:
    parent = await home.create_compute()
    marks = await insert_numbers(parent, 3)
    compute = await home.create_child(parent)
    if ends != "was never opened":
        assert await compute.start() is Readiness.READY
        marks += await insert_numbers(compute, 3)
        with pytest.raises(EngineError, match="still runs"):
            await retire(compute)
        await (compute.kill() if ends == "is killed" else compute.suspend())
    await compute.suspend()
    await retire(compute)
    await retire(compute)
    assert not compute.volume_folder.exists()
    assert "\n".join(HomeConsistency(home.settings).find_inconsistencies()) == ""
    await another_control(home)
    for point in (HEAD, marks[-1].points[0]) if ends != "was never opened" else (HEAD,):
        assert await read_numbers_at(compute, point) == numbers_up_to(marks[-1])
    if ends != "was never opened":
        assert await read_numbers_at(compute, marks[-2].points[1]) == numbers_up_to(marks[-2])
    kept = await keep(compute)
    assert kept.began_at == record(compute).origin.at
    await compute.delete()
    assert not home.engine._history._archives.folder(compute.spec.volume_id).exists()
    await compute.delete()


async def test_a_volume_is_retired_whenever_control_was_killed_in_the_middle(home: EngineHome) -> None:
    compute = await home.create_compute()
    marks = await insert_numbers(compute, 3)
    await kill_process(compute.pid)
    await home.engine.ensure_suspended(compute.spec.endpoint_id)
    engine, volume = home.engine, compute.spec.volume_id
    folder = engine._volumes.folder(volume)
    tail = max(path.name for path in (compute.data_folder / "pg_wal").iterdir() if wal.is_segment(path.name))
    (engine._history._archives.folder(volume) / archiver.temporary_name(tail)).write_text("half")
    await another_control(home)
    engine = home.engine
    engine._history._retirement._add_tail(volume, folder)
    await another_control(home)
    engine = home.engine
    engine._history._archives.write_retired_record(volume, record(compute))
    await another_control(home)
    engine = home.engine
    assert "\n".join(HomeConsistency(home.settings).find_inconsistencies()) == ""
    engine._volumes.hide(volume)
    await another_control(home)
    await retire(compute)
    assert "\n".join(HomeConsistency(home.settings).find_inconsistencies()) == ""
    assert await read_numbers_at(compute, HEAD) == numbers_up_to(marks[-1])


async def test_restored_volumes_stand_on_what_they_were_restored_from(any_home: EngineHome) -> None:
    """Also when that is gone itself, and pruned; and again one of those."""
    compute = await any_home.create_compute()
    marks = await insert_numbers(compute, 4)
    await emit(compute, 20)
    restored = await start_branch_at(compute, marks[1].points[0])
    more = await insert_numbers(restored, 3)
    again = await start_branch_at(restored, more[1].points[1])
    most: list[CommitMark] = await insert_numbers(again, 3)
    await compute.suspend()
    await retire(compute)
    for each in (compute, restored, again):
        await keep(each, clock.now())
    assert await read_numbers_at(restored, more[0].points[1]) == numbers_up_to(more[0])
    assert await read_numbers_at(again, most[1].points[0]) == numbers_up_to(most[1])
    assert await read_numbers(again) == numbers_up_to(most[-1])


async def test_how_much_a_volume_has_for_itself(any_home: EngineHome) -> None:
    compute = await any_home.create_compute()
    alone = await any_home.engine.measure_volume(compute.spec.volume_id)
    assert alone is not None
    await write_filler_wal(compute, 10)
    more = await any_home.engine.measure_volume(compute.spec.volume_id)
    assert more is not None
    assert more > alone
    await compute.suspend()
    await retire(compute)
    assert await any_home.engine.measure_volume(compute.spec.volume_id) is None


async def test_nothing_is_thrown_away_that_a_volume_with_a_broken_record_may_need(home: EngineHome) -> None:
    parent = await home.create_compute()
    await insert_numbers(parent, 1)
    child = await home.create_child(parent)
    file = child.volume_folder / "volume.json"
    whole = file.read_bytes()
    await emit(parent, 10)
    file.write_text("{")
    before = segments(parent)
    base = await home.engine._history._bases.take(parent.spec.volume_id, record(parent), await pinned(parent))
    assert base is not None
    with pytest.raises(EngineError, match="is broken"):
        await keep(parent, clock.now())
    assert segments(parent)[: len(before)] == before
    neighbour = await home.create_compute()
    if is_root():  # then a volume's owner is known by its files
        await keep(neighbour, clock.now())
    file.write_bytes(whole)
    await keep(parent, clock.now())


async def pinned(compute: Compute) -> Install:
    return await compute.home.engine._install_catalog.require_install(compute.spec.install)
