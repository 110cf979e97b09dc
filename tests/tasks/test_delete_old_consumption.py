"""Old buckets are deleted, and no bucket that a request may ask for."""

from datetime import datetime, timedelta
from typing import Any

from bough import clock
from bough.control.consumption import counting
from bough.domain.consumption import Granularity
from bough.ids import EndpointId
from bough.store.consumption_reads import BucketQuery
from bough.store.store import Rows
from bough.tasks.delete_old_consumption import DeleteOldConsumption
from support.branches import shift_clock
from support.platform import Platform


async def has_bucket(rows: Rows, created: dict[str, Any], granularity: Granularity, moment: datetime) -> bool:
    start = granularity.start_of(moment)
    projects = [created["project"]["id"]]
    query = BucketQuery(
        granularity=granularity, start=start, end=granularity.end_of(start), project_ids=projects, columns=()
    )
    return bool(await rows.consumption_reads.list_buckets(query))


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
            kept[days] = [await has_bucket(rows, created, granularity, begin) for granularity in Granularity]
    assert kept == {7: [True, True, True], 60: [False, True, True], 366: [False, False, True]}
    with shift_clock(timedelta(days=460)):
        assert await task.run() != ""
