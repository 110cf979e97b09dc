"""Old buckets are deleted, and no bucket that a request may ask for."""

from datetime import timedelta

from bough import clock
from bough.control.consumption import counting
from bough.domain.consumption import Granularity
from bough.ids import EndpointId
from bough.store.consumption import Consumer
from bough.tasks.delete_old_consumption import DeleteOldConsumption
from support.branches import shift_clock
from support.platform import Platform


async def test_each_granularity_is_kept_as_long_as_it_can_be_read(platform: Platform) -> None:
    created = await platform.create_project()
    endpoint = EndpointId(created["endpoints"][0]["id"])
    task, begin = DeleteOldConsumption(platform.store), clock.now()
    for days in (0, 30, 200, 500):
        async with platform.store.transaction() as rows:
            await rows.usage.add_written(endpoint, 1)
            await counting.count(rows, begin + timedelta(days=days))
    kept = {}
    for days in (7, 60, 366):
        with shift_clock(timedelta(days=days)):
            await task.run()
        async with platform.store.read() as rows:
            term = (await rows.consumption.get_amounts([Consumer(created["project"]["id"])])).popitem()[1].since
            kept[days] = [
                await rows.consumption.get_bucket(
                    Consumer(created["project"]["id"]), granularity, term, granularity.start_of(begin)
                )
                is not None
                for granularity in Granularity
            ]
    assert kept == {7: [True, True, True], 60: [False, True, True], 366: [False, False, True]}
    with shift_clock(timedelta(days=460)):
        assert await task.run() != ""
