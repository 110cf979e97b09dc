"""An unmounted storage image: every call fails with a hint, nothing is written, and a restart mounts it again."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from bough.config import Settings
from bough.engine.local.folders import Folders
from bough.engine.local.images.image import Image
from bough.engine.port import EngineError, Readiness
from support.engine_home import Compute, EngineHome, home_with_image
from support.home_consistency import HomeConsistency
from support.requirements import require_cow


@pytest.fixture(params=["xfs", pytest.param("btrfs", marks=pytest.mark.long)])
def settings(request: pytest.FixtureRequest) -> Iterator[Settings]:
    require_cow()
    with home_with_image(request.param) as home_settings:
        yield home_settings


@pytest.fixture
def image(settings: Settings) -> Image:
    loaded = Image.load(settings.home)
    assert loaded is not None
    return loaded


@pytest.fixture
async def home(settings: Settings) -> AsyncIterator[EngineHome]:
    async with EngineHome.open(settings) as opened:
        yield opened


async def create_filled_compute(home: EngineHome) -> Compute:
    compute = await home.create_compute()
    async with compute.connect() as db:
        await db.execute("create table kept as select generate_series(1, 1000) as n")
    return compute


async def expect_rejections(home: EngineHome, compute: Compute) -> None:
    child = partial(home.create_child, compute)
    for call in (home.create_branch, child, compute.start, compute.suspend, compute.delete, home.engine.observe):
        with pytest.raises(EngineError, match=r"storage\.img is not mounted at .*/storage.*bough restart") as refused:
            await call()
        assert refused.value.transient, "it works once the image is mounted again"
    assert "is not mounted" in (home.engine.capabilities().creation_blocked_reason or "")


def list_entries(image: Image, settings: Settings) -> list[Path]:
    wal = Folders(settings).pg_wal
    return sorted([*image.mount_point.iterdir(), *(wal.iterdir() if wal else ())])


async def test_without_its_storage_everything_is_refused_and_nothing_is_written(home: EngineHome, image: Image) -> None:
    consistency = HomeConsistency(home.settings)
    compute = await create_filled_compute(home)
    await compute.suspend()
    image.unmount()
    before = list_entries(image, home.settings)
    await expect_rejections(home, compute)
    assert list_entries(image, home.settings) == before
    assert list(image.mount_point.iterdir()) == []

    image.ensure_mounted()
    assert await compute.start() is Readiness.READY
    assert await compute.fetch_value("select count(*) from kept") == 1000
    assert "\n".join(consistency.find_inconsistencies()) == ""


async def test_a_start_mounts_it_again(home: EngineHome, image: Image) -> None:
    compute = await create_filled_compute(home)
    await compute.suspend()
    image.unmount()
    await home.restart_control()
    assert image.is_mounted()
    assert await compute.start() is Readiness.READY
    assert await compute.fetch_value("select count(*) from kept") == 1000


async def test_unmounted_under_a_compute_nothing_committed_is_lost(home: EngineHome, image: Image) -> None:
    """The kernel keeps a file system for its users. External WAL is no longer found from there."""
    consistency = HomeConsistency(home.settings)
    compute = await create_filled_compute(home)
    pid, committed = compute.pid, 1000
    with suppress(asyncpg.PostgresError):
        async with compute.connect() as db:
            unmount_in_use(image)
            await db.execute("insert into kept select 0")
            committed += 1
    await expect_rejections(home, compute)

    await home.restart_control()
    assert await compute.start() is Readiness.READY
    assert await compute.fetch_value("select count(*) from kept") == committed
    if Folders(home.settings).pg_wal is None:
        assert (compute.pid, committed) == (pid, 1001), "it kept running and was adopted"
    assert "\n".join(consistency.find_inconsistencies()) == ""


def unmount_in_use(image: Image) -> None:
    subprocess.run(["umount", "--lazy", image.mount_point], check=True)
