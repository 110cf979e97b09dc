"""The storage image is gone from its place: that is said, nothing is written there, and a start brings it back."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from bough.config import Settings
from bough.engine.local.engine import LocalEngine
from bough.engine.local.folders import Folders
from bough.engine.local.images.image import Image
from bough.engine.port import EngineError, Readiness
from support.engine_home import Compute, EngineHome, home_with_image
from support.home_consistency import HomeConsistency
from support.requirements import require_cow


@pytest.fixture(params=["xfs", pytest.param("btrfs", marks=pytest.mark.long)])
def settings(request: pytest.FixtureRequest) -> Iterator[Settings]:
    require_cow()
    with home_with_image(request.param) as made:
        yield made


@pytest.fixture
def image(settings: Settings) -> Image:
    found = Image.load(settings.home)
    assert found is not None
    return found


@pytest.fixture
async def home(settings: Settings) -> AsyncIterator[EngineHome]:
    async with EngineHome.open(settings) as opened:
        yield opened


async def kept(home: EngineHome) -> Compute:
    compute = await home.create_compute()
    async with compute.connect() as db:
        await db.execute("create table kept as select generate_series(1, 1000) as n")
    return compute


async def refuses_everything(home: EngineHome, compute: Compute) -> None:
    child = partial(home.create_child, compute)
    for verb in (home.create_branch, child, compute.start, compute.suspend, compute.delete, home.engine.observe):
        with pytest.raises(EngineError, match=r"storage\.img is not mounted at .*/storage.*bough restart") as refused:
            await verb()
        assert refused.value.transient, "once it is mounted again, it works"
    assert "is not mounted" in (home.engine.capabilities().creation_blocked_reason or "")


async def restart(home: EngineHome) -> None:
    await home.engine.close()
    home.engine = LocalEngine(home.settings)
    await home.engine.prepare()


def things_under(image: Image, settings: Settings) -> list[Path]:
    wal = Folders(settings).pg_wal
    return sorted([*image.mount_point.iterdir(), *(wal.iterdir() if wal else ())])


async def test_without_its_storage_everything_is_refused_and_nothing_is_written(home: EngineHome, image: Image) -> None:
    machine = HomeConsistency(home.settings)
    compute = await kept(home)
    await compute.suspend()
    image.unmount()
    before = things_under(image, home.settings)
    await refuses_everything(home, compute)
    assert things_under(image, home.settings) == before
    assert list(image.mount_point.iterdir()) == []

    image.ensure_mounted()
    assert await compute.start() is Readiness.READY
    assert await compute.fetch_value("select count(*) from kept") == 1000
    assert "\n".join(machine.find_inconsistencies()) == ""


async def test_a_start_mounts_it_again(home: EngineHome, image: Image) -> None:
    compute = await kept(home)
    await compute.suspend()
    image.unmount()
    await restart(home)
    assert image.is_mounted()
    assert await compute.start() is Readiness.READY
    assert await compute.fetch_value("select count(*) from kept") == 1000


async def test_unmounted_under_a_compute_nothing_committed_is_lost(home: EngineHome, image: Image) -> None:
    """The kernel keeps a file system for those who use it. WAL that is apart is not found from there."""
    machine = HomeConsistency(home.settings)
    compute = await kept(home)
    pid, committed = compute.pid, 1000
    with suppress(asyncpg.PostgresError):
        async with compute.connect() as db:
            unmount_in_use(image)
            await db.execute("insert into kept select 0")
            committed += 1
    await refuses_everything(home, compute)

    await restart(home)
    assert await compute.start() is Readiness.READY
    assert await compute.fetch_value("select count(*) from kept") == committed
    if Folders(home.settings).pg_wal is None:
        assert (compute.pid, committed) == (pid, 1001), "it went on, and was found again"
    assert "\n".join(machine.find_inconsistencies()) == ""


def unmount_in_use(image: Image) -> None:
    subprocess.run(["umount", "--lazy", image.mount_point], check=True)
