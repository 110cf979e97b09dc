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
from bough.engine.local.history.archives import Archives
from bough.engine.port import Readiness
from bough.ids import VolumeId
from bough.postgres import archiving, wal
from engine.consistency import Machine
from engine.followers import eventually, replica_of
from engine.homes import Compute, Home, home_folder
from engine.warm_homes import WarmHome


def long_ago() -> datetime:
    return clock.now() - timedelta(days=7)


def archives(home: Home) -> Archives:
    return home.engine._histories.archives


def place(compute: Compute) -> Path:
    return compute.home.settings.home / "wal" / compute.spec.volume_id


async def switch(compute: Compute) -> str:
    """The segment that was written until now; it is to be archived."""
    async with compute.connect("bough_admin", "postgres") as ours:
        await ours.execute("select pg_logical_emit_message(false, 'test', 'a')")
        return str(await ours.fetchval("select pg_walfile_name(pg_switch_wal())"))


async def is_archived(compute: Compute, segment: str) -> None:
    async def look() -> bool:
        return segment in archives(compute.home).segments(compute.spec.volume_id)

    await eventually(look, True)


async def test_a_segment_is_archived_when_it_is_full(home: Home) -> None:
    compute = await home.compute()
    segment = await switch(compute)
    await is_archived(compute, segment)
    kept = place(compute) / segment
    assert kept.stat().st_size == wal.SEGMENT_BYTES
    assert kept.stat().st_uid == compute.data.stat().st_uid
    assert place(compute).stat().st_uid == compute.data.stat().st_uid
    assert stat.S_IMODE(place(compute).stat().st_mode) == 0o700
    assert not (compute.volume / "archive").readlink().is_absolute()
    folder = home.engine._volumes.folder(compute.spec.volume_id)
    await eventually(lambda: asyncio.to_thread(archives(home).waiting, folder), [])


async def test_what_is_there_is_not_written_again(home: Home) -> None:
    """As after a crash between the copy and the server's note of it."""
    compute = await home.compute()
    segment = await switch(compute)
    marks = compute.data / "pg_wal" / archiving.STATUS_FOLDER
    await eventually(lambda: asyncio.to_thread((marks / f"{segment}.done").exists), True)
    (marks / f"{segment}.done").rename(marks / f"{segment}.ready")
    before = (place(compute) / segment).stat()
    await switch(compute)
    await eventually(lambda: asyncio.to_thread((marks / f"{segment}.done").exists), True)
    after = (place(compute) / segment).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


async def test_the_place_is_made_again_at_the_next_start(home: Home) -> None:
    """As for branches that an earlier version made, and after a power cut."""
    compute = await home.compute()
    await compute.suspend()
    shutil.rmtree(place(compute))
    (compute.volume / "archive").unlink()
    assert await compute.run() is Readiness.READY
    await is_archived(compute, await switch(compute))


async def test_a_compute_serves_while_nothing_can_be_archived_and_that_is_told(home: Home) -> None:
    compute = await home.compute()
    shutil.rmtree(place(compute))
    place(compute).write_text("no folder")
    segment = await switch(compute)
    folder = home.engine._volumes.folder(compute.spec.volume_id)
    await eventually(lambda: asyncio.to_thread(archives(home).waiting, folder), [segment])
    assert await compute.value("select 1") == 1
    mark = compute.data / "pg_wal" / archiving.STATUS_FOLDER / f"{segment}.ready"
    os.utime(mark, (mark.stat().st_mtime - 300,) * 2)
    await eventually(lambda: failures(compute), segment)
    kept = await home.engine.keep_history(compute.spec.volume_id, long_ago())
    assert kept.waiting_bytes == wal.SEGMENT_BYTES
    assert kept.trouble is not None
    assert f"waits to be archived in {place(compute)}, the oldest for 5 min" in kept.trouble
    assert segment in kept.trouble
    place(compute).unlink()
    assert (await home.engine.keep_history(compute.spec.volume_id, long_ago())).trouble is not None
    await is_archived(compute, await switch(compute))
    await is_archived(compute, segment)
    assert (await home.engine.keep_history(compute.spec.volume_id, long_ago())).trouble is None


async def failures(compute: Compute) -> str | None:
    async with compute.connect("bough_admin", "postgres") as ours:
        rows = await ours.fetch(archiving.FAILED)
        return rows[0]["file"] if rows else None


async def test_a_spare_has_no_archive_and_the_branch_that_takes_it_does() -> None:
    """Whenever the control that hands it over is killed."""
    with home_folder(warm_pool=1) as settings:
        first = await WarmHome.begun(settings)
        await first.spares(1)
        assert list((settings.home / "wal").iterdir()) == []
        compute = await first.project()
        assert place(compute).is_dir()
        assert (compute.volume / "archive").resolve() == place(compute)
        record = first.engine._volumes.folder(compute.spec.volume_id).read()
        assert record is not None
        assert None not in (record.born, record.first_segment, record.made_at)
        (compute.volume / "archive").unlink()
        place(compute).rmdir()
        (settings.home / "wal" / VolumeId.new()).mkdir()  # of a branch that never came
        await first.engine.close()
        async with WarmHome.opened(settings) as home:
            again = home.found(compute)
            await home.spares(1)  # one that is being made has a user id before it has a volume
            assert "\n".join(Machine(settings).disorder()) == ""
            assert await again.run() is Readiness.READY
            await is_archived(again, await switch(again))


async def test_a_spare_that_is_stopped_waits_for_no_archive() -> None:
    """It has none, and a server that ends well tries for seconds to file its last WAL."""
    with home_folder(warm_pool=1) as settings:
        async with WarmHome.opened(settings) as home:
            (spare,) = await home.spares(1)
            await home.engine.ensure_suspended(spare)
            said = home.engine._folders.log(spare).read_text()
            assert "immediate shutdown" in said
            assert "archive command failed" not in said


async def test_a_replica_archives_nothing(primary: Compute) -> None:
    replica = await replica_of(primary)
    segment = await switch(primary)
    await is_archived(primary, segment)
    assert not place(replica).exists()
    assert not os.path.lexists(replica.volume / "archive")


async def test_what_a_stop_leaves_of_a_segment_takes_no_room(home: Home) -> None:
    compute = await home.compute()
    await is_archived(compute, await switch(compute))
    before = archives(home).segments(compute.spec.volume_id)
    await compute.value("select pg_logical_emit_message(true, 'test', 'a')")
    await compute.suspend()
    (made,) = archives(home).segments(compute.spec.volume_id) - before
    seen = (place(compute) / made).stat()
    assert seen.st_size == wal.SEGMENT_BYTES
    assert seen.st_blocks * 512 < wal.SEGMENT_BYTES // 8


async def test_links_that_a_tenant_put_into_its_archive_are_not_followed(home: Home, open_folder: Path) -> None:
    compute = await home.compute()
    await is_archived(compute, await switch(compute))
    await compute.suspend()
    known = archives(home).segments(compute.spec.volume_id)
    secret = open_folder / "secret"
    secret.write_text("not yours")
    owner = compute.data.stat().st_uid
    tail = [path.name for path in (compute.data / "pg_wal").iterdir() if wal.is_segment(path.name)]
    for name in (wal.numbered(1, 1), wal.numbered(1, 9000), *map(archiving.unfinished, tail), "00000007.history"):
        if not os.path.lexists(place(compute) / name):
            (place(compute) / name).symlink_to(secret)
            os.lchown(place(compute) / name, owner, owner)
    (compute.data / "pg_wal" / "00000008.history").symlink_to(secret)
    assert archives(home).segments(compute.spec.volume_id) == known
    await home.engine.keep_history(compute.spec.volume_id, clock.now())
    await home.engine.retire(compute.spec.project_id, compute.spec.volume_id)
    assert "00000008.history" not in archives(home).segments(compute.spec.volume_id)
    await compute.absent()
    assert secret.read_text() == "not yours"
    assert secret.stat().st_uid == os.geteuid()
    assert not place(compute).exists()


async def test_the_link_is_made_anew_when_the_storage_has_moved(home: Home) -> None:
    compute = await home.branch()
    link = compute.volume / "archive"
    link.symlink_to("../../../elsewhere")
    assert await compute.run() is Readiness.READY
    assert link.resolve() == place(compute)
    await is_archived(compute, await switch(compute))


@pytest.mark.parametrize("is_retired", [True, False])
async def test_a_start_takes_away_archives_of_nobody(home: Home, *, is_retired: bool) -> None:
    compute = await home.compute()
    await is_archived(compute, await switch(compute))
    await compute.suspend()
    if is_retired:
        await home.engine.retire(compute.spec.project_id, compute.spec.volume_id)
    else:
        await home.engine._volumes.ensure_closed(compute.spec.volume_id, compute.spec.project_id)
    await another_control(home)
    assert place(compute).exists() == is_retired
    assert "\n".join(Machine(home.settings).disorder()) == ""


async def another_control(home: Home) -> None:
    await home.engine.close()
    home.engine = LocalEngine(home.settings)
    await home.engine.prepare()
