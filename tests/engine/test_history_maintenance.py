"""History maintenance: when bases are taken, what is pruned and retained, and retired volumes."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from bough import clock
from bough.config import Settings, is_root
from bough.domain.history import HEAD, Point
from bough.engine.local import free_space
from bough.engine.local.history import maintenance
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
from support.history import (
    archive_folder,
    archive_remaining_wal,
    list_archived_segments,
    list_bases,
    read_volume_record,
    take_base,
    write_retired_record,
)
from support.home_consistency import HomeConsistency

DAY = timedelta(days=1)
LONG_TIER_DRIVERS = ("plain", "btrfs", "btrfs+wal")


@pytest.fixture(autouse=True)
def no_minimum_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_MIN_RETENTION", timedelta(0))


# Tests that use the shared home run on the plain driver.
@pytest.fixture(
    scope="module", params=["reflink", *(pytest.param(each, marks=pytest.mark.long) for each in LONG_TIER_DRIVERS)]
)
def driver_settings(request: pytest.FixtureRequest) -> Iterator[Settings]:
    with home_on_driver(request.param, history_base_bytes=16 * 1024**2) as settings:
        yield settings


@pytest.fixture
async def any_home(driver_settings: Settings) -> AsyncIterator[EngineHome]:
    async with EngineHome.open(driver_settings) as home:
        yield home


async def apply_retention(compute: Compute, since: datetime | None = None) -> HistoryStatus:
    retained_since = since or clock.now() - DAY
    return await compute.home.engine.apply_retention(compute.spec.volume_id, retained_since)


async def retire(compute: Compute) -> None:
    await compute.home.engine.retire_volume(compute.spec.project_id, compute.spec.volume_id)


async def write_wal(compute: Compute, megabytes: int) -> None:
    """Write this much WAL without changing any table."""
    async with compute.connect() as db:
        for _ in range(megabytes):
            await db.execute("select pg_logical_emit_message(false, 'test', repeat('x', 1048576))")


async def test_a_base_is_taken_after_so_much_wal_and_older_ones_go(any_home: EngineHome) -> None:
    compute = await any_home.create_compute()
    marks = await insert_numbers(compute, 2)
    kept = await apply_retention(compute)
    assert list_bases(compute) == []  # it depends on the template
    assert kept.began_at == datetime.fromisoformat(str(read_volume_record(compute).assigned_at))
    assert kept.began_lsn is not None
    assert kept.problem is None

    for count in (1, 2):
        await write_wal(compute, 60)
        marks += await insert_numbers(compute, 2)
        kept = await apply_retention(compute)
        assert len(list_bases(compute)) == count
        assert kept.history_bytes > 16 * 1024**2
    marks += await insert_numbers(compute, 2)
    for mark in marks[::2]:
        assert await read_numbers_at(compute, mark.points[0]) == numbers_up_to(mark)

    first, second = list_bases(compute)
    between = first.at + (second.at - first.at) / 2
    kept = await apply_retention(compute, between)
    assert list_bases(compute) == [first, second]
    assert min(list_archived_segments(compute)) == first.first_segment
    assert (kept.began_at, kept.began_lsn) == (first.at, first.lsn)
    assert read_volume_record(compute).is_self_contained
    kept = await apply_retention(compute, second.at)
    assert list_bases(compute) == [second]
    assert min(list_archived_segments(compute)) >= second.first_segment
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
    await write_wal(compute, 20)
    kept = await apply_retention(compute, clock.now())
    assert list_bases(compute) == []
    assert (kept.began_at, kept.began_lsn) == (None, None)
    assert list_archived_segments(compute) == []
    assert read_volume_record(compute).is_self_contained
    later = await apply_retention(compute)  # history is requested again and starts now
    (base,) = list_bases(compute)
    assert later.began_at == base.at
    assert later.began_lsn == base.lsn
    marks = await insert_numbers(compute, 2)
    assert await read_numbers_at(compute, marks[0].points[1]) == numbers_up_to(marks[0])


async def test_a_branch_of_an_earlier_version_gets_a_base_at_once(home: EngineHome) -> None:
    compute = await home.create_compute()
    await insert_numbers(compute, 2)
    folder = home.engine._components.volumes.folder(compute.spec.volume_id)
    folder.write_record(replace(read_volume_record(compute), first_segment=None, assigned_at=None))
    kept = await apply_retention(compute)
    (base,) = list_bases(compute)
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
    await write_wal(parent, 60)
    await apply_retention(parent)
    assert len(list_bases(parent)) == 1
    needed = [name for name in list_archived_segments(parent) if name < str(read_volume_record(child).first_segment)]
    await apply_retention(parent, clock.now())
    assert [name for name in list_archived_segments(parent) if name in needed] == needed
    assert not read_volume_record(parent).is_self_contained
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
        assert read_volume_record(each).is_self_contained
    await retire(parent)
    await apply_retention(parent, clock.now())
    (base,) = list_bases(parent)
    assert min(list_archived_segments(parent)) >= base.first_segment
    await parent.delete()
    assert await child.start() is Readiness.READY
    later = await insert_numbers(child, 2)
    assert await read_numbers_at(child, later[0].points[1]) == numbers_up_to(later[0])


async def test_a_child_that_writes_gets_a_base_of_its_own_in_time(
    home: EngineHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = await home.create_compute()
    await insert_numbers(parent, 1)
    idle, writer = await home.create_child(parent), await home.create_child(parent)
    assert await writer.start() is Readiness.READY
    await write_wal(writer, 1)
    monkeypatch.setattr(home.engine._components.volumes.driver, "name", "reflink")  # a driver with cheap bases
    for compute in (idle, writer):
        await apply_retention(compute)
        assert list_bases(compute) == []
    monkeypatch.setattr(maintenance, "_OWN_BASE_AFTER", timedelta(0))
    await apply_retention(idle)
    assert list_bases(idle) == []
    await apply_retention(writer)
    assert len(list_bases(writer)) == 1
    # A child that wrote nothing within the retention gets a base from when it was created.
    origin_at = read_volume_record(idle).origin.at
    assert origin_at is not None
    kept = await apply_retention(idle, origin_at)
    assert kept.began_at == origin_at
    assert [compute.at for compute in list_bases(idle)] == [origin_at]
    assert read_volume_record(idle).is_self_contained


async def test_no_base_is_taken_where_there_is_no_room(home: EngineHome, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = await home.create_compute()
    folder = home.engine._components.volumes.folder(compute.spec.volume_id)
    folder.write_record(replace(read_volume_record(compute), first_segment=None))
    shortage = "The disk has 1 MB of free space: free some space."
    monkeypatch.setattr(free_space, "explain_shortage", lambda *_: shortage)
    kept = await apply_retention(compute)
    assert list_bases(compute) == []
    assert kept.problem == f"No base is taken, so restores take longer. {shortage}"
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
    (base,) = list_bases(compute)
    assert kept.began_at == base.at
    assert await home.engine.ensure_history_started(*volume) == kept
    assert list_bases(compute) == [base]
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
    await home.restart_control()
    for point in (HEAD, marks[-1].points[0]) if ends != "was never opened" else (HEAD,):
        assert await read_numbers_at(compute, point) == numbers_up_to(marks[-1])
    if ends != "was never opened":
        assert await read_numbers_at(compute, marks[-2].points[1]) == numbers_up_to(marks[-2])
    kept = await apply_retention(compute)
    assert kept.began_at == read_volume_record(compute).origin.at
    await compute.delete()
    assert not archive_folder(compute).exists()
    await compute.delete()


async def test_a_volume_is_retired_whenever_control_was_killed_in_the_middle(home: EngineHome) -> None:
    compute = await home.create_compute()
    marks = await insert_numbers(compute, 3)
    await kill_process(compute.pid)
    await home.engine.ensure_suspended(compute.spec.endpoint_id)
    volume = compute.spec.volume_id
    tail = max(path.name for path in (compute.data_folder / "pg_wal").iterdir() if wal.is_segment(path.name))
    (archive_folder(compute) / archiver.temporary_name(tail)).write_text("half")
    await home.restart_control()
    archive_remaining_wal(home.engine, volume)
    await home.restart_control()
    write_retired_record(home.engine, volume, read_volume_record(compute))
    await home.restart_control()
    assert "\n".join(HomeConsistency(home.settings).find_inconsistencies()) == ""
    home.engine._components.volumes.hide(volume)
    await home.restart_control()
    await retire(compute)
    assert "\n".join(HomeConsistency(home.settings).find_inconsistencies()) == ""
    assert await read_numbers_at(compute, HEAD) == numbers_up_to(marks[-1])


async def test_restored_volumes_stand_on_what_they_were_restored_from(any_home: EngineHome) -> None:
    """Also if the source is retired and pruned, and for a restore of a restored volume."""
    compute = await any_home.create_compute()
    marks = await insert_numbers(compute, 4)
    await write_wal(compute, 20)
    restored = await start_branch_at(compute, marks[1].points[0])
    more = await insert_numbers(restored, 3)
    again = await start_branch_at(restored, more[1].points[1])
    last: list[CommitMark] = await insert_numbers(again, 3)
    await compute.suspend()
    await retire(compute)
    for each in (compute, restored, again):
        await apply_retention(each, clock.now())
    assert await read_numbers_at(restored, more[0].points[1]) == numbers_up_to(more[0])
    assert await read_numbers_at(again, last[1].points[0]) == numbers_up_to(last[1])
    assert await read_numbers(again) == numbers_up_to(last[-1])


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
    await write_wal(parent, 10)
    file.write_text("{")
    before = list_archived_segments(parent)
    assert await take_base(parent) is not None
    with pytest.raises(EngineError, match="is broken"):
        await apply_retention(parent, clock.now())
    assert list_archived_segments(parent)[: len(before)] == before
    neighbour = await home.create_compute()
    if is_root():  # then the owner of the files tells the project
        await apply_retention(neighbour, clock.now())
    file.write_bytes(whole)
    await apply_retention(parent, clock.now())
