"""Computes in a thin image on a disk that becomes full: the image stays usable, and nothing committed is lost."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import asyncpg
import pytest

from bough.config import Settings
from bough.engine.local.images import image_setup
from bough.engine.local.images.image import Image
from bough.engine.local.progress import ignore_progress
from bough.engine.port import EngineError, Readiness
from support import storage
from support.engine_home import Compute, EngineHome, home_in
from support.loop_images import check_xfs, mount_loop_image
from support.requirements import require_cow

MB = 1024**2
DISK_MB = 1800
CREATE_TABLE = "create table kept (n bigint primary key, filler text default repeat('x', 3000))"
FREQUENT_CHECKPOINTS = {"max_wal_size": "8MB", "checkpoint_completion_target": "0"}  # data is written all the time
CONNECTION_ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


@pytest.fixture
def disk() -> Iterator[Path]:
    require_cow()
    with mount_loop_image("ext4", DISK_MB) as folder, storage.release_mounts(folder):
        yield folder


@pytest.fixture
def settings(disk: Path) -> Iterator[Settings]:
    with home_in(disk, free_space_floor=128 * MB) as home_settings:
        home_settings.home.mkdir(mode=0o711)
        planned = Image.plan(
            home_settings.home, home_settings.home / "storage.img", fs="xfs", thin=True, size=1600 * MB
        )
        image_setup.create_image(planned, 0, ignore_progress)
        yield home_settings


@pytest.fixture
async def home(settings: Settings) -> AsyncIterator[EngineHome]:
    async with EngineHome.open(settings) as opened:
        yield opened


async def test_a_tenant_who_fills_the_image_gets_an_error_and_others_go_on(home: EngineHome) -> None:
    other, greedy = await home.create_compute(), await home.create_compute()
    before = other.pid, greedy.pid
    async with other.connect() as db:
        await db.execute(CREATE_TABLE)
        await db.execute("insert into kept select generate_series(1, 100)")
    async with greedy.connect() as db:
        await db.execute("create unlogged table large (filler text)")
        with pytest.raises(asyncpg.DiskFullError, match="No space left on device"):
            for _ in range(100):
                await db.execute("insert into large select repeat(md5(n::text), 60) from generate_series(1, 20000) n")
        assert await other.fetch_value("select count(*) from kept") == 100
        await db.execute("drop table large")
    await wait_for_space(home, 400 * MB)
    async with other.connect() as db:
        await db.execute("insert into kept select generate_series(101, 20000)")
    assert (other.pid, greedy.pid) == before, "no compute was restarted"
    await other.suspend()  # writes everything
    assert await other.start() is Readiness.READY
    assert await other.fetch_value("select count(*) from kept") == 20000
    assert_usable(home)
    await stop_and_check(home)


@pytest.mark.long
async def test_another_program_fills_the_disk_while_computes_write(home: EngineHome, disk: Path) -> None:
    """The disk has not a single free block for a while; WAL is on it as well, so that computes stop and recover."""
    computes = [await home.create_compute() for _ in range(3)]
    for compute in computes:
        await compute.suspend()
        assert await compute.start(settings={**compute.spec.settings, **FREQUENT_CHECKPOINTS}) is Readiness.READY
        async with compute.connect() as db:
            await db.execute(CREATE_TABLE)
    writers = [asyncio.create_task(insert_until_failure(compute)) for compute in computes]
    await asyncio.sleep(1)
    fill = asyncio.create_task(asyncio.to_thread(fill_repeatedly, disk / "filler"))
    committed = [await writer for writer in writers]
    await fill
    assert all(committed)
    assert "rw" in read_mount_options(home)
    (disk / "filler").unlink()
    await wait_for_space(home, 256 * MB)
    for compute, kept in zip(computes, committed, strict=True):
        await start_again(compute)
        async with compute.connect() as db:
            rows = {n for (n,) in await db.fetch("select n from kept")}
            await db.execute("insert into kept values (0)")
            assert await db.fetchval("select sum(length(filler)) from kept") == 3000 * (len(rows) + 1)
        assert kept <= rows
        assert len(rows - kept) <= 1, "the last one may have been committed without a reply"
        assert list_data_errors(compute) == []
    child = await home.create_child(computes[0])
    assert await child.start() is Readiness.READY
    assert await child.fetch_value("select count(*) from kept") >= len(committed[0])
    assert_usable(home)
    await stop_and_check(home)


def list_data_errors(compute: Compute) -> list[str]:
    """Return reports of data that could not be written to the disk. WAL is outside the image."""
    lines = compute.log_file.read_text(errors="replace").splitlines()
    return [line for line in lines if "could not fsync" in line or ("PANIC" in line and "pg_wal" not in line)]


def read_mount_options(home: EngineHome) -> list[str]:
    mount_point = str(home.settings.home / "storage")
    lines = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return next(fields[3].split(",") for fields in lines if fields[1] == mount_point)


async def insert_until_failure(compute: Compute) -> set[int]:
    """Return the rows whose commit was confirmed."""
    committed: set[int] = set()
    with suppress(*CONNECTION_ERRORS):
        async with compute.connect() as db:
            while True:
                n = len(committed) + 1
                await db.execute("insert into kept values ($1)", n)
                committed.add(n)
    return committed


async def start_again(compute: Compute) -> None:
    """A server that recovers by itself from a crash may be ready only after some time."""
    for _ in range(100):
        with suppress(EngineError, asyncpg.CannotConnectNowError):
            if await compute.start() is Readiness.READY and await compute.fetch_value("select true"):
                return
        await asyncio.sleep(0.1)
    raise AssertionError("the compute does not start")


async def wait_for_space(home: EngineHome, size: int) -> None:
    for _ in range(600):
        status = os.statvfs(home.settings.home / "storage")
        if status.f_bavail * status.f_frsize >= size:
            assert (await home.engine.observe()).free_bytes >= size
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the space does not come back")


def fill_repeatedly(filler: Path) -> None:
    """Use up every block, also those that the image returns, until it returns no more."""
    with filler.open("wb", buffering=0) as file:
        for _ in range(40):
            for size in (16 * MB, MB, 4096):
                with suppress(OSError):
                    while True:
                        os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), size)
            time.sleep(0.1)


def assert_usable(home: EngineHome) -> None:
    image = Image.load(home.settings.home)
    assert image is not None
    probe = image.mount_point / "probe"
    probe.write_bytes(b"written")
    with probe.open("rb") as file:
        os.fsync(file.fileno())
    probe.unlink()


async def stop_and_check(home: EngineHome) -> None:
    await home.delete_computes()
    home.computes.clear()
    await home.engine.close()
    image = Image.load(home.settings.home)
    assert image is not None
    await asyncio.to_thread(check_file_system, image)


def check_file_system(image: Image) -> None:
    image.unmount()
    check_xfs(image.file)
    image.ensure_mounted()
