"""Random verbs on every driver, with kills of control and computes in between: nothing is lost, nothing is left."""

import random
from collections.abc import Iterator

import pytest

from bough.config import Settings
from engine.consistency import Machine
from engine.examination import findings
from engine.homes import DRIVERS, home_on
from engine.walking import Walk, own_uids

SHORT, LONG = 9, 500
EVERYDAY_SEED = 20261107
# On XFS `test_power_cut` walks every day.
LATER = ("btrfs", "btrfs+wal", "reflink")


@pytest.fixture(params=[pytest.param(each, marks=pytest.mark.long) if each in LATER else each for each in DRIVERS])
def settings(request: pytest.FixtureRequest) -> Iterator[Settings]:
    with home_on(request.param, warm_pool=1, project_uids=own_uids()) as made:
        yield made


@pytest.mark.timeout(3600)
async def test_nothing_is_lost_or_left_whatever_is_killed(settings: Settings, long: bool) -> None:
    seed = random.randrange(10**9) if long else EVERYDAY_SEED
    print(f"the seed is {seed}")  # shown when the test fails
    machine = Machine(settings)
    walk = Walk(settings, random.Random(seed), most=8 if long else 3)
    try:
        await walk.go(LONG if long else SHORT)
    finally:
        print(f"{walk.calls} calls, kills: {walk.kills}")
    assert await findings(walk, settings, machine) == ""
