"""Archiving: a compute's own server keeps its WAL where its history is, whatever becomes of the place."""

import asyncio
import os
import shutil
import stat
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from bough import clock
from bough.engine.local.engine import LocalEngine
from bough.engine.local.history.wal_archives import WalArchives
from bough.engine.port import Readiness
from bough.ids import VolumeId
from bough.postgres import archiver, wal
from engine.warm_home import WarmHome
from support.engine_home import Compute, EngineHome, temporary_home
from support.home_consistency import HomeConsistency
from support.replicas import start_replica, wait_until_equal


def long_ago() -> datetime:
    return clock.now() - timedelta(days=7)


def archives(home: EngineHome) -> WalArchives:
    return home.engine._history._archives


def place(compute: Compute) -> Path:
    return compute.home.settings.home / "wal" / compute.spec.volume_id


async def switch(compute: Compute) -> str:
    """The segment that was written until now; it is to be archived."""
    async with compute.connect("bough_admin", "postgres") as ours:
        await ours.execute("select pg_logical_emit_message(false, 'test', 'a')")
        return str(await ours.fetchval("select pg_walfile_name(pg_switch_wal())"))


async def is_archived(compute: Compute, segment: str) -> None:
    async def look() -> bool:
        return segment in archives(compute.home).list_wal_files(compute.spec.volume_id)

    await wait_until_equal(look, True)


async def test_a_segment_is_archived_when_it_is_full(home: EngineHome) -> None:
    compute = await home.create_compute()
    segment = await switch(compute)
    await is_archived(compute, segment)
    kept = place(compute) / segment
    assert kept.stat().st_size == wal.SEGMENT_BYTES
    assert kept.stat().st_uid == compute.data_folder.stat().st_uid
    assert place(compute).stat().st_uid == compute.data_folder.stat().st_uid
    assert stat.S_IMODE(place(compute).stat().st_mode) == 0o700
    assert not (compute.volume_folder / "archive").readlink().is_absolute()
    folder = home.engine._volumes.folder(compute.spec.volume_id)
    await wait_until_equal(lambda: asyncio.to_thread(archives(home).list_unarchived_names, folder), [])


async def test_what_is_there_is_not_written_again(home: EngineHome) -> None:
    """As after a crash between the copy and the server's note of it."""
    compute = await home.create_compute()
    segment = await switch(compute)
    marks = compute.data_folder / "pg_wal" / archiver.STATUS_FOLDER
    await wait_until_equal(lambda: asyncio.to_thread((marks / f"{segment}.done").exists), True)
    (marks / f"{segment}.done").rename(marks / f"{segment}.ready")
    before = (place(compute) / segment).stat()
    await switch(compute)
    await wait_until_equal(lambda: asyncio.to_thread((marks / f"{segment}.done").exists), True)
    after = (place(compute) / segment).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


async def test_the_place_is_made_again_at_the_next_start(home: EngineHome) -> None:
    """As for branches that an earlier version made, and after a power cut."""
    compute = await home.create_compute()
    await compute.suspend()
    shutil.rmtree(place(compute))
    (compute.volume_folder / "archive").unlink()
    assert await compute.start() is Readiness.READY
    await is_archived(compute, await switch(compute))


async def test_a_compute_serves_while_nothing_can_be_archived_and_that_is_told(home: EngineHome) -> None:
    compute = await home.create_compute()
    shutil.rmtree(place(compute))
    place(compute).write_text("no folder")
    segment = await switch(compute)
    folder = home.engine._volumes.folder(compute.spec.volume_id)
    await wait_until_equal(lambda: asyncio.to_thread(archives(home).list_unarchived_names, folder), [segment])
    assert await compute.fetch_value("select 1") == 1
    mark = compute.data_folder / "pg_wal" / archiver.STATUS_FOLDER / f"{segment}.ready"
    os.utime(mark, (mark.stat().st_mtime - 300,) * 2)
    await wait_until_equal(lambda: failures(compute), segment)
    kept = await home.engine.apply_retention(compute.spec.volume_id, long_ago())
    assert kept.waiting_bytes == wal.SEGMENT_BYTES
    assert kept.trouble is not None
    assert f"waits to be archived in {place(compute)}, the oldest for 5 min" in kept.trouble
    assert segment in kept.trouble
    place(compute).unlink()
    assert (await home.engine.apply_retention(compute.spec.volume_id, long_ago())).trouble is not None
    await is_archived(compute, await switch(compute))
    await is_archived(compute, segment)
    assert (await home.engine.apply_retention(compute.spec.volume_id, long_ago())).trouble is None


async def failures(compute: Compute) -> str | None:
    async with compute.connect("bough_admin", "postgres") as ours:
        rows = await ours.fetch(archiver.SELECT_LAST_FAILURE)
        return rows[0]["file"] if rows else None


async def test_a_spare_has_no_archive_and_the_branch_that_takes_it_does() -> None:
    """Whenever the control that hands it over is killed."""
    with temporary_home(warm_pool=1) as settings:
        first = await WarmHome.start(settings)
        await first.wait_for_spares(1)
        assert list((settings.home / "wal").iterdir()) == []
        compute = await first.create_project()
        assert place(compute).is_dir()
        assert (compute.volume_folder / "archive").resolve() == place(compute)
        record = first.engine._volumes.folder(compute.spec.volume_id).read_record()
        assert record is not None
        assert None not in (record.born, record.first_segment, record.made_at)
        (compute.volume_folder / "archive").unlink()
        place(compute).rmdir()
        (settings.home / "wal" / VolumeId.new()).mkdir()  # of a branch that never came
        await first.engine.close()
        async with WarmHome.open(settings) as home:
            again = home.adopt(compute)
            await home.wait_for_spares(1)  # one that is being made has a user id before it has a volume
            assert "\n".join(HomeConsistency(settings).find_inconsistencies()) == ""
            assert await again.start() is Readiness.READY
            await is_archived(again, await switch(again))


async def test_a_spare_that_is_stopped_waits_for_no_archive() -> None:
    """It has none, and a server that ends well tries for seconds to file its last WAL."""
    with temporary_home(warm_pool=1) as settings:
        async with WarmHome.open(settings) as home:
            (spare,) = await home.wait_for_spares(1)
            await home.engine.ensure_suspended(spare)
            said = home.engine._folders.log_file(spare).read_text()
            assert "immediate shutdown" in said
            assert "archive command failed" not in said


async def test_a_replica_archives_nothing(primary: Compute) -> None:
    replica = await start_replica(primary)
    segment = await switch(primary)
    await is_archived(primary, segment)
    assert not place(replica).exists()
    assert not os.path.lexists(replica.volume_folder / "archive")


async def test_what_a_stop_leaves_of_a_segment_takes_no_room(home: EngineHome) -> None:
    compute = await home.create_compute()
    await is_archived(compute, await switch(compute))
    before = archives(home).list_wal_files(compute.spec.volume_id)
    await compute.fetch_value("select pg_logical_emit_message(true, 'test', 'a')")
    await compute.suspend()
    (made,) = archives(home).list_wal_files(compute.spec.volume_id) - before
    seen = (place(compute) / made).stat()
    assert seen.st_size == wal.SEGMENT_BYTES
    assert seen.st_blocks * 512 < wal.SEGMENT_BYTES // 8


async def test_links_that_a_tenant_put_into_its_archive_are_not_followed(
    home: EngineHome, traversable_folder: Path
) -> None:
    compute = await home.create_compute()
    await is_archived(compute, await switch(compute))
    await compute.suspend()
    known = archives(home).list_wal_files(compute.spec.volume_id)
    secret = traversable_folder / "secret"
    secret.write_text("not yours")
    owner = compute.data_folder.stat().st_uid
    tail = [path.name for path in (compute.data_folder / "pg_wal").iterdir() if wal.is_segment(path.name)]
    for name in (
        wal.segment_name_from_number(1, 1),
        wal.segment_name_from_number(1, 9000),
        *map(archiver.temporary_name, tail),
        "00000007.history",
    ):
        if not os.path.lexists(place(compute) / name):
            (place(compute) / name).symlink_to(secret)
            os.lchown(place(compute) / name, owner, owner)
    (compute.data_folder / "pg_wal" / "00000008.history").symlink_to(secret)
    assert archives(home).list_wal_files(compute.spec.volume_id) == known
    await home.engine.apply_retention(compute.spec.volume_id, clock.now())
    await home.engine.retire_volume(compute.spec.project_id, compute.spec.volume_id)
    assert "00000008.history" not in archives(home).list_wal_files(compute.spec.volume_id)
    await compute.delete()
    assert secret.read_text() == "not yours"
    assert secret.stat().st_uid == os.geteuid()
    assert not place(compute).exists()


async def test_the_link_is_made_anew_when_the_storage_has_moved(home: EngineHome) -> None:
    compute = await home.create_branch()
    link = compute.volume_folder / "archive"
    link.symlink_to("../../../elsewhere")
    assert await compute.start() is Readiness.READY
    assert link.resolve() == place(compute)
    await is_archived(compute, await switch(compute))


@pytest.mark.parametrize("is_retired", [True, False])
async def test_a_start_takes_away_archives_of_nobody(home: EngineHome, *, is_retired: bool) -> None:
    compute = await home.create_compute()
    await is_archived(compute, await switch(compute))
    await compute.suspend()
    if is_retired:
        await home.engine.retire_volume(compute.spec.project_id, compute.spec.volume_id)
    else:
        await home.engine._volumes.ensure_data_absent(compute.spec.volume_id, compute.spec.project_id)
    await another_control(home)
    assert place(compute).exists() == is_retired
    assert "\n".join(HomeConsistency(home.settings).find_inconsistencies()) == ""


async def another_control(home: EngineHome) -> None:
    await home.engine.close()
    home.engine = LocalEngine(home.settings)
    await home.engine.prepare()
