"""Read replicas on every volume driver: copied from a running and from a suspended primary, with WAL copied later."""

from collections.abc import AsyncIterator

import pytest

from bough.config import Settings
from bough.engine.port import ReplicaState
from support.engine_home import Compute, EngineHome
from support.replicas import insert_numbers, list_slots, plan_replica, start_replica, wait_for_numbers, write_wal


@pytest.fixture
async def primary(settings: Settings) -> AsyncIterator[Compute]:
    async with EngineHome.open(settings) as home:
        compute = await home.create_compute()
        await insert_numbers(compute, 1)
        yield compute


async def test_it_follows_one_that_runs(primary: Compute) -> None:
    replica = await start_replica(primary)
    await write_wal(primary, 6)
    await insert_numbers(primary, 2)
    await wait_for_numbers(replica, 1, 2)
    engine = primary.home.engine
    assert await engine.read_replica_state(replica.spec.endpoint_id) is ReplicaState.FOLLOWING
    written = await engine.read_statistics(primary.spec.endpoint_id)
    replayed = await engine.read_statistics(replica.spec.endpoint_id)
    assert written is not None
    assert replayed is not None
    assert (written.replayed_position, replayed.wal_position) == (None, None)
    assert written.wal_position is not None
    assert replayed.replayed_position is not None
    assert 0 < replayed.replayed_position <= written.wal_position + 2**24  # WAL of the background writer
    assert replayed.replay_age_seconds is not None


async def test_it_is_made_of_one_that_sleeps_and_is_handed_what_that_wrote_later(primary: Compute) -> None:
    await primary.suspend()
    replica = plan_replica(primary)
    for number in (2, 3):
        await replica.start()
        await wait_for_numbers(replica, *range(1, number))
        await replica.suspend()
        await primary.start()
        await write_wal(primary, 6)
        await insert_numbers(primary, number)
        await primary.suspend()
    await replica.start()
    await wait_for_numbers(replica, 1, 2, 3)
    assert await primary.home.engine.read_replica_state(replica.spec.endpoint_id) is ReplicaState.FOLLOWING


async def test_when_it_goes_nothing_of_it_stays(primary: Compute) -> None:
    replica = await start_replica(primary)
    await replica.suspend()
    await replica.delete()
    await replica.delete()
    assert (await primary.home.engine.observe()).volumes == {primary.spec.volume_id}
    assert await list_slots(primary) == set()
    await replica.start()
    await wait_for_numbers(replica, 1)
