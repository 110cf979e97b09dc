"""The power is cut: what was answered is there, what was half made is gone, and nobody is needed to mend it."""

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from bough.config import Settings
from bough.engine.local.images import image_making
from bough.engine.local.images.image import Image
from bough.engine.local.progress import silent
from bough.engine.port import EngineError, Readiness
from engine.consistency import Machine
from engine.examination import findings
from engine.homes import home_in
from engine.power import Disk, disk_of, end_everything_in, power_cut
from engine.walking import Walk, own_uids
from engine.warm_homes import WarmHome
from images import FileSystem
from requires import require_cow

# `btrfs in xfs`: a home on XFS with a storage image, whose disk is a file of that XFS.
DISKS: dict[str, FileSystem] = {"xfs": "xfs", "btrfs": "btrfs", "ext4": "ext4", "btrfs in xfs": "xfs"}
LATER = ["btrfs", "ext4", "btrfs in xfs"]
SHORT, LONG = 15, 200
EVERYDAY_SEED = 20261115


@contextmanager
def home_on(kind: str) -> Iterator[tuple[Settings, Disk]]:
    require_cow()
    with disk_of(DISKS[kind]) as disk, home_in(disk.folder, warm_pool=1, project_uids=own_uids()) as settings:
        if kind == DISKS[kind]:
            yield settings, disk
            return
        settings.home.mkdir(mode=0o711)
        image = Image.planned(settings.home, settings.home / "storage.img", fs="btrfs", thin=True, size=1 << 30)
        image_making.make(image, 0, silent)
        try:
            yield settings, disk
        finally:
            end_everything_in(disk.folder)
            image.unmount()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["xfs", *(pytest.param(kind, marks=pytest.mark.long) for kind in LATER)])
async def test_nothing_is_lost_or_left_when_the_power_is_cut(kind: str, long: bool) -> None:
    seed = random.randrange(10**9) if long else EVERYDAY_SEED
    print(f"the seed is {seed}")  # shown when the test fails
    with home_on(kind) as (settings, disk):
        machine = Machine(settings)
        walk = Walk(settings, random.Random(seed), most=6 if long else 3, disk=disk)
        try:
            await walk.go(LONG if long else SHORT)
        finally:
            print(f"{walk.calls} calls, kills: {walk.kills}")
        assert await findings(walk, settings, machine) == ""


async def test_a_spare_that_was_taken_a_moment_ago_has_its_wal() -> None:
    """Its folders got new names on two file systems, which are synced one by one."""
    with home_on("btrfs in xfs") as (settings, disk):
        before = await WarmHome.begun(settings)
        await before.spares(1)
        taken = await before.project()
        disk.cut()
        with suppress(EngineError, OSError):  # from the next spare, which was being made
            await before.engine.close()
        power_cut(disk, settings)
        async with WarmHome.opened(settings) as home:
            compute = home.found(taken)
            assert await compute.run() is Readiness.READY
            assert await compute.value("select 1") == 1
