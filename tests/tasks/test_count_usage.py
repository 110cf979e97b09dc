"""Running time of computes: counted as it passes, across restarts of control, and not while they are suspended."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from bough import clock
from bough.store.project_pages import ProjectUsage
from bough.tasks.count_usage import CountUsage
from support.platform import API, Platform


class FakeClock:
    """A clock that the test advances. Each reading advances it a little, too little to be counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now = clock.now()
        monkeypatch.setattr(clock, "now", self._read)

    def _read(self) -> datetime:
        self._now += timedelta(microseconds=10)
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


@pytest.fixture
def fake_clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    return FakeClock(monkeypatch)


async def read_usage(platform: Platform, created: dict[str, Any]) -> ProjectUsage:
    """Return what is counted in the consumption history, and what is not yet."""
    async with platform.store.read() as rows:
        found = await rows.project_pages.get(created["project"]["id"])
    assert found is not None
    return found.usage


async def is_metered(platform: Platform, created: dict[str, Any]) -> bool:
    async with platform.store.read() as rows:
        return created["endpoints"][0]["id"] in {each.endpoint_id for each in await rows.usage.list_metered()}


async def post_action(platform: Platform, created: dict[str, Any], action: str) -> None:
    endpoint = created["endpoints"][0]
    path = f"{API}/projects/{endpoint['project_id']}/endpoints/{endpoint['id']}/{action}"
    assert (await platform.client.post(path)).status_code == 200
    await platform.run_operations()


async def test_it_is_counted_while_it_runs_and_to_its_end(platform: Platform, fake_clock: FakeClock) -> None:
    created = await platform.create_ready_project()
    task = CountUsage(platform.store, platform.engine)
    fake_clock.advance(5)
    await task.run()
    assert (await read_usage(platform, created)).active_seconds == 5
    fake_clock.advance(3)
    await post_action(platform, created, "suspend")
    suspended = await read_usage(platform, created)
    assert (suspended.active_seconds, suspended.compute_seconds) == (8, 2)
    assert not await is_metered(platform, created)
    fake_clock.advance(1000)
    await task.run()
    assert (await read_usage(platform, created)).active_seconds == 8
    await post_action(platform, created, "start")
    fake_clock.advance(2)
    await task.run()
    assert (await read_usage(platform, created)).active_seconds == 10


async def test_what_it_ran_while_control_was_away_is_counted(platform: Platform, fake_clock: FakeClock) -> None:
    created = await platform.create_ready_project()
    fake_clock.advance(600)
    await CountUsage(platform.store, platform.engine).run()
    assert (await read_usage(platform, created)).active_seconds == 600


async def test_the_time_that_it_was_gone_is_not_counted(platform: Platform, fake_clock: FakeClock) -> None:
    """As after a power failure: according to its row the compute runs, but it does not."""
    created = await platform.create_ready_project()
    await platform.stop_computes()
    fake_clock.advance(600)
    task = CountUsage(platform.store, platform.engine)
    await task.run()
    assert (await read_usage(platform, created)).active_seconds == 0
    await platform.run_tasks()
    await platform.run_operations()
    fake_clock.advance(5)
    await task.run()
    assert (await read_usage(platform, created)).active_seconds == 5


async def test_a_clock_set_back_takes_nothing_away(platform: Platform, fake_clock: FakeClock) -> None:
    created = await platform.create_ready_project()
    fake_clock.advance(-600)
    await CountUsage(platform.store, platform.engine).run()
    assert (await read_usage(platform, created)).active_seconds == 0
