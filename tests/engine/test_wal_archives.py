"""WAL archiving by the compute's own server, and what happens when the archive is missing or changed."""

import asyncio
import os
import shutil
import stat
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from bough import clock
from bough.engine.port import Readiness
from bough.ids import VolumeId
from bough.postgres import archiver, wal
from engine.warm_home import WarmHome
from support.engine_home import Compute, EngineHome, temporary_home
from support.history import list_archived_wal, list_unarchived
from support.home_consistency import HomeConsistency
from support.replicas import start_replica, wait_until_equal


def a_week_ago() -> datetime:
    return clock.now() - timedelta(days=7)


def archive(compute: Compute) -> Path:
    return compute.home.settings.home / "wal" / compute.spec.volume_id


async def switch_segment(compute: Compute) -> str:
    """Switch to a new WAL segment; returns the previous one, which is archived next."""
    async with compute.connect("bough_admin", "postgres") as connection:
        await connection.execute("select pg_logical_emit_message(false, 'test', 'a')")
        return str(await connection.fetchval("select pg_walfile_name(pg_switch_wal())"))


async def wait_until_archived(compute: Compute, segment: str) -> None:
    async def is_archived() -> bool:
        return segment in list_archived_wal(compute)

    await wait_until_equal(is_archived, True)


async def test_a_segment_is_archived_when_it_is_full(home: EngineHome) -> None:
    compute = await home.create_compute()
    segment = await switch_segment(compute)
    await wait_until_archived(compute, segment)
    archived = archive(compute) / segment
    assert archived.stat().st_size == wal.SEGMENT_BYTES
    assert archived.stat().st_uid == compute.data_folder.stat().st_uid
    assert archive(compute).stat().st_uid == compute.data_folder.stat().st_uid
    assert stat.S_IMODE(archive(compute).stat().st_mode) == 0o700
    assert not (compute.volume_folder / "archive").readlink().is_absolute()
    await wait_until_equal(lambda: asyncio.to_thread(list_unarchived, compute), [])


async def test_what_is_there_is_not_written_again(home: EngineHome) -> None:
    """For example after a crash between the copy and the server's status file."""
    compute = await home.create_compute()
    segment = await switch_segment(compute)
    status_folder = compute.data_folder / "pg_wal" / archiver.STATUS_FOLDER
    await wait_until_equal(lambda: asyncio.to_thread((status_folder / f"{segment}.done").exists), True)
    (status_folder / f"{segment}.done").rename(status_folder / f"{segment}.ready")
    before = (archive(compute) / segment).stat()
    await switch_segment(compute)
    await wait_until_equal(lambda: asyncio.to_thread((status_folder / f"{segment}.done").exists), True)
    after = (archive(compute) / segment).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


async def test_the_place_is_made_again_at_the_next_start(home: EngineHome) -> None:
    """For example for branches of an earlier version, or after a power cut."""
    compute = await home.create_compute()
    await compute.suspend()
    shutil.rmtree(archive(compute))
    (compute.volume_folder / "archive").unlink()
    assert await compute.start() is Readiness.READY
    await wait_until_archived(compute, await switch_segment(compute))


async def test_a_compute_serves_while_nothing_can_be_archived_and_that_is_told(home: EngineHome) -> None:
    compute = await home.create_compute()
    shutil.rmtree(archive(compute))
    archive(compute).write_text("no folder")
    segment = await switch_segment(compute)
    await wait_until_equal(lambda: asyncio.to_thread(list_unarchived, compute), [segment])
    assert await compute.fetch_value("select 1") == 1
    ready_file = compute.data_folder / "pg_wal" / archiver.STATUS_FOLDER / f"{segment}.ready"
    os.utime(ready_file, (ready_file.stat().st_mtime - 300,) * 2)
    await wait_until_equal(lambda: read_last_failure(compute), segment)
    status = await home.engine.apply_retention(compute.spec.volume_id, a_week_ago())
    assert status.waiting_bytes == wal.SEGMENT_BYTES
    assert status.problem is not None
    assert f"waits to be archived in {archive(compute)}, the oldest for 5 min" in status.problem
    assert segment in status.problem
    archive(compute).unlink()
    assert (await home.engine.apply_retention(compute.spec.volume_id, a_week_ago())).problem is not None
    await wait_until_archived(compute, await switch_segment(compute))
    await wait_until_archived(compute, segment)
    assert (await home.engine.apply_retention(compute.spec.volume_id, a_week_ago())).problem is None


async def read_last_failure(compute: Compute) -> str | None:
    async with compute.connect("bough_admin", "postgres") as connection:
        rows = await connection.fetch(archiver.SELECT_LAST_FAILURE)
        return rows[0]["file"] if rows else None


async def test_a_spare_has_no_archive_and_the_branch_that_takes_it_does() -> None:
    """Also if control is killed while it assigns the spare."""
    with temporary_home(warm_pool=1) as settings:
        first = await WarmHome.start(settings)
        await first.wait_for_spares(1)
        assert list((settings.home / "wal").iterdir()) == []
        compute = await first.create_project()
        assert archive(compute).is_dir()
        assert (compute.volume_folder / "archive").resolve() == archive(compute)
        record = first.engine._components.volumes.folder(compute.spec.volume_id).read_record()
        assert record is not None
        assert None not in (record.spare_name, record.first_segment, record.assigned_at)
        (compute.volume_folder / "archive").unlink()
        archive(compute).rmdir()
        (settings.home / "wal" / VolumeId.new()).mkdir()  # of a branch that was never created
        await first.engine.close()
        async with WarmHome.open(settings) as home:
            again = home.adopt(compute)
            await home.wait_for_spares(1)  # a spare has a user id before it has a volume
            assert "\n".join(HomeConsistency(settings).find_inconsistencies()) == ""
            assert await again.start() is Readiness.READY
            await wait_until_archived(again, await switch_segment(again))


async def test_a_spare_that_is_stopped_waits_for_no_archive() -> None:
    """It has no archive, and a server that shuts down cleanly retries for seconds to archive its last WAL."""
    with temporary_home(warm_pool=1) as settings:
        async with WarmHome.open(settings) as home:
            (spare,) = await home.wait_for_spares(1)
            await home.engine.ensure_suspended(spare)
            log = home.engine._components.folders.log_file(spare).read_text()
            assert "immediate shutdown" in log
            assert "archive command failed" not in log


async def test_a_replica_archives_nothing(primary: Compute) -> None:
    replica = await start_replica(primary)
    segment = await switch_segment(primary)
    await wait_until_archived(primary, segment)
    assert not archive(replica).exists()
    assert not os.path.lexists(replica.volume_folder / "archive")


async def test_what_a_stop_leaves_of_a_segment_takes_no_room(home: EngineHome) -> None:
    compute = await home.create_compute()
    await wait_until_archived(compute, await switch_segment(compute))
    before = list_archived_wal(compute)
    await compute.fetch_value("select pg_logical_emit_message(true, 'test', 'a')")
    await compute.suspend()
    (added,) = list_archived_wal(compute) - before
    status = (archive(compute) / added).stat()
    assert status.st_size == wal.SEGMENT_BYTES
    assert status.st_blocks * 512 < wal.SEGMENT_BYTES // 8


async def test_links_that_a_tenant_put_into_its_archive_are_not_followed(
    home: EngineHome, traversable_folder: Path
) -> None:
    compute = await home.create_compute()
    await wait_until_archived(compute, await switch_segment(compute))
    await compute.suspend()
    before = list_archived_wal(compute)
    secret = traversable_folder / "secret"
    secret.write_text("not yours")
    owner = compute.data_folder.stat().st_uid
    segments = [path.name for path in (compute.data_folder / "pg_wal").iterdir() if wal.is_segment(path.name)]
    for name in (
        wal.segment_name_from_number(1, 1),
        wal.segment_name_from_number(1, 9000),
        *map(archiver.temporary_name, segments),
        "00000007.history",
    ):
        if not os.path.lexists(archive(compute) / name):
            (archive(compute) / name).symlink_to(secret)
            os.lchown(archive(compute) / name, owner, owner)
    (compute.data_folder / "pg_wal" / "00000008.history").symlink_to(secret)
    assert list_archived_wal(compute) == before
    await home.engine.apply_retention(compute.spec.volume_id, clock.now())
    await home.engine.retire_volume(compute.spec.project_id, compute.spec.volume_id)
    assert "00000008.history" not in list_archived_wal(compute)
    await compute.delete()
    assert secret.read_text() == "not yours"
    assert secret.stat().st_uid == os.geteuid()
    assert not archive(compute).exists()


async def test_the_link_is_made_anew_when_the_storage_has_moved(home: EngineHome) -> None:
    compute = await home.create_branch()
    link = compute.volume_folder / "archive"
    link.symlink_to("../../../elsewhere")
    assert await compute.start() is Readiness.READY
    assert link.resolve() == archive(compute)
    await wait_until_archived(compute, await switch_segment(compute))


@pytest.mark.parametrize("is_retired", [True, False])
async def test_a_start_takes_away_archives_of_nobody(home: EngineHome, *, is_retired: bool) -> None:
    compute = await home.create_compute()
    await wait_until_archived(compute, await switch_segment(compute))
    await compute.suspend()
    if is_retired:
        await home.engine.retire_volume(compute.spec.project_id, compute.spec.volume_id)
    else:
        await home.engine._components.volumes.ensure_data_absent(compute.spec.volume_id, compute.spec.project_id)
    await home.restart_control()
    assert archive(compute).exists() == is_retired
    assert "\n".join(HomeConsistency(home.settings).find_inconsistencies()) == ""
