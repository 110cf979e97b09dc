"""Power cuts: what was confirmed is there, what was unfinished is removed, and no repair by hand is needed."""

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from bough.config import Settings
from bough.engine.local.images import image_setup
from bough.engine.local.images.image import Image
from bough.engine.local.progress import ignore_progress
from bough.engine.port import EngineError, Readiness
from engine.walk_checks import check_walk
from engine.warm_home import WarmHome
from support.engine_home import home_in
from support.engine_walk import EngineWalk
from support.folders import reserve_uid_range
from support.home_consistency import HomeConsistency
from support.loop_images import FileSystem
from support.power_cut import Disk, create_disk, kill_processes_in, simulate_power_cut, unmount_all_in
from support.requirements import require_cow

# `btrfs in xfs`: a home on XFS with a btrfs storage image in a file of that XFS.
DISKS: dict[str, FileSystem] = {"xfs": "xfs", "btrfs": "btrfs", "ext4": "ext4", "btrfs in xfs": "xfs"}
LONG_TIER = ["btrfs", "ext4", "btrfs in xfs"]
SHORT_STEPS, LONG_STEPS = 15, 200
EVERYDAY_SEED = 20261115


@contextmanager
def home_on(kind: str) -> Iterator[tuple[Settings, Disk]]:
    require_cow()
    with (
        create_disk(DISKS[kind]) as disk,
        home_in(disk.folder, warm_pool=1, project_uids=reserve_uid_range()) as settings,
    ):
        if kind == DISKS[kind]:
            yield settings, disk
            return
        settings.home.mkdir(mode=0o711)
        image = Image.plan(settings.home, settings.home / "storage.img", fs="btrfs", thin=True, size=1 << 30)
        image_setup.create_image(image, 0, ignore_progress)
        try:
            yield settings, disk
        finally:
            kill_processes_in(disk.folder)
            unmount_all_in(settings.home)  # nothing, if the test ended in the middle of a power cut


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["xfs", *(pytest.param(kind, marks=pytest.mark.long) for kind in LONG_TIER)])
async def test_nothing_is_lost_or_left_when_the_power_is_cut(kind: str, is_long_run: bool) -> None:
    seed = random.randrange(10**9) if is_long_run else EVERYDAY_SEED
    print(f"the seed is {seed}")  # shown when the test fails
    with home_on(kind) as (settings, disk):
        consistency = HomeConsistency(settings)
        walk = EngineWalk(settings, random.Random(seed), max_branches=6 if is_long_run else 3, disk=disk)
        try:
            await walk.run(LONG_STEPS if is_long_run else SHORT_STEPS)
        finally:
            print(f"{walk.calls} calls, kills: {walk.kills}")
        assert await check_walk(walk, settings, consistency) == ""


async def test_a_spare_that_was_taken_a_moment_ago_has_its_wal() -> None:
    """Its folders were renamed on two file systems, which are synced one after the other."""
    with home_on("btrfs in xfs") as (settings, disk):
        before = await WarmHome.start(settings)
        await before.wait_for_spares(1)
        assigned = await before.create_project()
        disk.cut_power()
        with suppress(EngineError, OSError):  # from the next spare, which was being created
            await before.engine.close()
        simulate_power_cut(disk, settings)
        async with WarmHome.open(settings) as home:
            compute = home.adopt(assigned)
            assert await compute.start() is Readiness.READY
            assert await compute.fetch_value("select 1") == 1
