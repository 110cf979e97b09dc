"""A read replica on every driver of volumes: made from one that runs and from one that sleeps, and handed its WAL."""

from collections.abc import AsyncIterator

import pytest

from bough.config import Settings
from bough.engine.port import Following
from engine.followers import follower_of, replica_of, shows, slots, write, write_much
from engine.homes import Compute, Home


@pytest.fixture
async def primary(settings: Settings) -> AsyncIterator[Compute]:
    async with Home.opened(settings) as home:
        compute = await home.compute()
        await write(compute, 1)
        yield compute


async def test_it_follows_one_that_runs(primary: Compute) -> None:
    replica = await replica_of(primary)
    await write_much(primary, 6)
    await write(primary, 2)
    await shows(replica, 1, 2)
    assert await primary.home.engine.following(replica.spec.endpoint_id) is Following.FOLLOWS


async def test_it_is_made_of_one_that_sleeps_and_is_handed_what_that_wrote_later(primary: Compute) -> None:
    await primary.suspend()
    replica = follower_of(primary)
    for number in (2, 3):
        await replica.run()
        await shows(replica, *range(1, number))
        await replica.suspend()
        await primary.run()
        await write_much(primary, 6)
        await write(primary, number)
        await primary.suspend()
    await replica.run()
    await shows(replica, 1, 2, 3)
    assert await primary.home.engine.following(replica.spec.endpoint_id) is Following.FOLLOWS


async def test_when_it_goes_nothing_of_it_stays(primary: Compute) -> None:
    replica = await replica_of(primary)
    await replica.suspend()
    await replica.absent()
    await replica.absent()
    assert (await primary.home.engine.observe()).volumes == {primary.spec.volume_id}
    assert await slots(primary) == set()
    await replica.run()
    await shows(replica, 1)
