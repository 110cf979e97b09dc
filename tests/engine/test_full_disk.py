"""A full disk: nothing incomplete is left, running computes go on or recover, and nothing committed is lost."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from bough.config import Settings
from bough.engine.port import EngineError, Readiness
from support.engine_home import Compute, EngineHome, home_in
from support.home_consistency import HomeConsistency
from support.loop_images import mount_loop_image
from support.replicas import wait_until_equal
from support.requirements import require_cow

CREATE_TABLE = "create table kept (n bigint primary key, filler text default repeat('x', 5000))"
CONNECTION_ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


class Disk:
    """A small file system, and a file that takes up its free space."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self, *, except_bytes: int = 0) -> None:
        """Use up all blocks except so many bytes."""
        with self._filler.open("ab") as file:
            for chunk in (2**20, 2**12):
                with suppress(OSError):
                    while self._free() - except_bytes > chunk:
                        os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), chunk)
        if not except_bytes:
            self._use_reserve()

    def free(self) -> None:
        self._filler.unlink()

    def _use_reserve(self) -> None:
        """The reserve of the file system itself is used only by small writes."""
        with self._filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
                os.fsync(file.fileno())

    def _free(self) -> int:
        status = os.statvfs(self.folder)
        return status.f_bavail * status.f_frsize


@pytest.fixture
def disk() -> Iterator[Disk]:
    require_cow()
    with mount_loop_image("xfs", 320) as folder:
        yield Disk(folder)


@pytest.fixture
def settings(disk: Disk) -> Iterator[Settings]:
    with home_in(disk.folder, storage="reflink") as disk_settings:
        yield disk_settings


@pytest.fixture
async def home(settings: Settings) -> AsyncIterator[EngineHome]:
    async with EngineHome.open(settings) as opened:
        yield opened


async def test_a_branch_that_does_not_fit_is_refused_before_it_begins(home: EngineHome, disk: Disk) -> None:
    await check_rejections(home, disk, 0)


async def test_a_branch_that_does_not_fit_is_refused_in_its_middle_and_leaves_nothing() -> None:
    """Without shared blocks, some files of a copy find space and others do not."""
    require_cow()
    with mount_loop_image("ext4", 320) as folder, home_in(folder, storage="plain") as settings:
        async with EngineHome.open(settings) as home:
            await check_rejections(home, Disk(folder), 8 * 2**20)


async def check_rejections(home: EngineHome, disk: Disk, except_bytes: int) -> None:
    consistency = HomeConsistency(home.settings)
    parent, suspended = await home.create_compute(), await home.create_branch()
    async with parent.connect() as db:
        await db.execute("create table kept as select generate_series(1, 1000) as n")
    disk.fill(except_bytes=except_bytes)
    for create in (home.create_branch, partial(home.create_child, suspended), partial(home.create_child, parent)):
        with pytest.raises(EngineError, match=r"disk is full|No space left") as refused:
            await create()
        assert not refused.value.transient
        assert "\n".join(consistency.find_inconsistencies()) == ""
    assert (await home.engine.observe()).volumes == {parent.spec.volume_id, suspended.spec.volume_id}

    disk.free()
    assert await parent.start() is Readiness.READY
    # A temporary slot disappears when the server notices that its session was closed.
    await wait_until_equal(partial(parent.fetch_value, "select count(*) from pg_replication_slots"), 0)
    child = await home.create_child(parent)
    assert await child.start() is Readiness.READY
    assert await child.fetch_value("select count(*) from kept") == 1000


async def test_a_compute_that_ran_out_of_disk_has_all_that_was_committed(home: EngineHome, disk: Disk) -> None:
    compute = await home.create_compute()
    async with compute.connect() as db:
        await db.execute(CREATE_TABLE)
    disk.fill()
    committed = await insert_until_failure(compute)
    with suppress(EngineError):  # where Postgres needs disk space to recover
        await compute.start()
    disk.free()
    assert await compute.start() is Readiness.READY
    async with compute.connect() as db:
        rows = {n for (n,) in await db.fetch("select n from kept")}
        await db.execute("insert into kept values (0)")
    assert committed <= rows
    assert len(rows - committed) <= 1, "the last one may have been committed without a reply"


async def insert_until_failure(compute: Compute) -> set[int]:
    """Return the rows whose commit was confirmed."""
    committed: set[int] = set()
    with suppress(*CONNECTION_ERRORS):
        async with compute.connect() as db:
            for n in range(1, 100_000):
                await db.execute("insert into kept values ($1)", n)
                committed.add(n)
    assert len(committed) < 100_000 - 1, "the disk was never full"
    return committed


async def test_the_floor_refuses_before_and_lets_go_on_what_runs(disk: Disk, settings: Settings) -> None:
    async with EngineHome.open(settings.model_copy(update={"free_space_floor": 64 * 2**20})) as home:
        compute = await home.create_compute()
        disk.fill(except_bytes=32 * 2**20)
        with pytest.raises(EngineError, match=r"less than free_space_floor \(64 MB\)") as refused:
            await home.create_child(compute)
        assert not refused.value.transient
        assert "free_space_floor" in (home.engine.capabilities().creation_blocked_reason or "")
        async with compute.connect() as db:
            await db.execute(CREATE_TABLE)
            await db.execute("insert into kept select generate_series(1, 1000)")
        await compute.suspend()
        assert await compute.start() is Readiness.READY
