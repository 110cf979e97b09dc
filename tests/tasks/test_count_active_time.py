"""Running time of computes: counted as it passes, across restarts of control, and not while they are suspended."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from bough import clock
from bough.domain.usage import EndpointUsage
from bough.tasks.count_active_time import CountActiveTime
from support.platform import API, Platform


class Time:
    """Time that advances when the test says so; each reading adds too little to count."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now = clock.now()
        monkeypatch.setattr(clock, "now", self._look)

    def _look(self) -> datetime:
        self._now += timedelta(microseconds=10)
        return self._now

    def passes(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


async def used(platform: Platform, created: dict[str, Any]) -> EndpointUsage:
    async with platform.store.read() as rows:
        found = await rows.usage.get(created["endpoints"][0]["id"])
    assert found is not None
    return found


async def call(platform: Platform, created: dict[str, Any], verb: str) -> None:
    endpoint = created["endpoints"][0]
    path = f"{API}/projects/{endpoint['project_id']}/endpoints/{endpoint['id']}/{verb}"
    assert (await platform.client.post(path)).status_code == 200
    await platform.run_operations()


async def test_it_is_counted_while_it_runs_and_to_its_end(platform: Platform, time: Time) -> None:
    created = await platform.create_ready_project()
    task = CountActiveTime(platform.store, platform.engine)
    time.passes(5)
    await task.run()
    assert round((await used(platform, created)).active_seconds, 1) == 5
    time.passes(3)
    await call(platform, created, "suspend")
    asleep = await used(platform, created)
    assert (round(asleep.active_seconds, 1), round(asleep.compute_seconds, 1), asleep.counted_at) == (8, 2, None)
    time.passes(1000)
    await task.run()
    assert round((await used(platform, created)).active_seconds, 1) == 8
    await call(platform, created, "start")
    time.passes(2)
    await task.run()
    assert round((await used(platform, created)).active_seconds, 1) == 10


async def test_what_it_ran_while_control_was_away_is_counted(platform: Platform, time: Time) -> None:
    created = await platform.create_ready_project()
    time.passes(600)
    await CountActiveTime(platform.store, platform.engine).run()
    assert round((await used(platform, created)).active_seconds, 1) == 600


async def test_the_time_that_it_was_gone_is_not_counted(platform: Platform, time: Time) -> None:
    """As after a power failure: the row says that it runs, but nothing does."""
    created = await platform.create_ready_project()
    await platform.stop_computes()
    time.passes(600)
    task = CountActiveTime(platform.store, platform.engine)
    await task.run()
    assert round((await used(platform, created)).active_seconds, 1) == 0
    await platform.run_tasks()
    await platform.run_operations()
    time.passes(5)
    await task.run()
    assert round((await used(platform, created)).active_seconds, 1) == 5


async def test_a_clock_set_back_takes_nothing_away(platform: Platform, time: Time) -> None:
    created = await platform.create_ready_project()
    time.passes(-600)
    await CountActiveTime(platform.store, platform.engine).run()
    assert round((await used(platform, created)).active_seconds, 1) == 0
