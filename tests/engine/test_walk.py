"""Random calls on every driver, with kills of control and computes: nothing is lost, and nothing is left over."""

import random
from collections.abc import Iterator

import pytest

from bough.config import Settings
from engine.walk_checks import check_walk
from support.engine_home import DRIVERS, home_on_driver
from support.engine_walk import EngineWalk
from support.folders import reserve_uid_range
from support.home_consistency import HomeConsistency

SHORT, LONG = 9, 500
EVERYDAY_SEED = 20261107
# `test_power_cut` walks on XFS in every run.
LATER = ("btrfs", "btrfs+wal", "reflink")


@pytest.fixture(params=[pytest.param(each, marks=pytest.mark.long) if each in LATER else each for each in DRIVERS])
def settings(request: pytest.FixtureRequest) -> Iterator[Settings]:
    with home_on_driver(request.param, warm_pool=1, project_uids=reserve_uid_range()) as made:
        yield made


@pytest.mark.timeout(3600)
async def test_nothing_is_lost_or_left_whatever_is_killed(settings: Settings, is_long_run: bool) -> None:
    seed = random.randrange(10**9) if is_long_run else EVERYDAY_SEED
    print(f"the seed is {seed}")  # shown when the test fails
    machine = HomeConsistency(settings)
    walk = EngineWalk(settings, random.Random(seed), max_branches=8 if is_long_run else 3)
    try:
        await walk.run(LONG if is_long_run else SHORT)
    finally:
        print(f"{walk.calls} calls, kills: {walk.kills}")
    assert await check_walk(walk, settings, machine) == ""
