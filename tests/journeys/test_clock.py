"""The clock of the machine is set forward and back by a day: work ends once, and nothing waits for hours."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest

from bough import clock
from bough.domain.operation import OperationStatus
from bough.ids import ProjectId
from support.platform import API, Platform, open_platform
from support.postgres import PostgresServer
from support.stores import EVERYDAY_BACKENDS

DAY = timedelta(days=1)


class Jumping:
    """A clock that can be set; what only measures time does not notice."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._offset = timedelta(0)
        true = clock.now
        monkeypatch.setattr(clock, "now", lambda: true() + self._offset)

    def jump(self, by: timedelta) -> None:
        self._offset += by


@pytest.fixture
def jumping(monkeypatch: pytest.MonkeyPatch) -> Jumping:
    return Jumping(monkeypatch)


@pytest.fixture(params=EVERYDAY_BACKENDS)
async def platform(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> AsyncIterator[Platform]:
    url = "" if request.param == "sqlite" else await postgres_server.create_store_database()
    async with open_platform(store_url=url) as made:
        yield made


@asynccontextmanager
async def at_work(platform: Platform) -> AsyncIterator[None]:
    """The runner and the standing tasks, as in a control."""
    works = [platform.inner.runner.run(), *(loop.run() for loop in platform.inner.loops)]
    running = [asyncio.create_task(work) for work in works]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def all_ended(platform: Platform) -> None:
    async with asyncio.timeout(60):
        while True:
            async with platform.store.read() as rows:
                if await rows.operations.count_open() == 0:
                    return
            await asyncio.sleep(0.02)


async def noticed(platform: Platform, project: str) -> None:
    """There is work beyond the two operations of a creation."""
    async with asyncio.timeout(60):
        while True:
            if len(await platform.list_operations(project)) > 2:
                return
            await asyncio.sleep(0.05)


async def assert_it_is_whole(platform: Platform, made: dict[str, Any]) -> None:
    operations = await platform.list_operations(made["project"]["id"])
    assert [(each.stored_action, each.status) for each in operations] == [
        ("create_timeline", OperationStatus.FINISHED),
        ("start_compute", OperationStatus.FINISHED),
    ]
    assert await platform.query(made, "select 1") == 1
    async with platform.store.read() as rows:
        (endpoint,) = await rows.endpoints.list_in_project(ProjectId(made["project"]["id"]))
    assert (endpoint.state, endpoint.pending_state) == ("active", None)


@pytest.mark.parametrize("jump", [DAY, -DAY])
async def test_work_that_is_under_way_ends_once(platform: Platform, jumping: Jumping, jump: timedelta) -> None:
    async with at_work(platform):
        made = [await platform.create_project() for _ in range(2)]
        jumping.jump(jump)
        made += [await platform.create_project() for _ in range(2)]
        await asyncio.sleep(0.1)
        jumping.jump(-jump)
        await all_ended(platform)
    for each in made:
        await assert_it_is_whole(platform, each)
    seen = await platform.engine.observe()
    assert (len(seen.running_endpoints), len(seen.volumes)) == (4, 4)


async def test_work_of_tomorrow_does_not_wait_for_tomorrow(platform: Platform, jumping: Jumping) -> None:
    jumping.jump(DAY)
    made = await platform.create_project()
    assert await platform.inner.runner._lease_next() is not None  # and then that control is gone
    jumping.jump(-DAY)
    async with at_work(platform):
        await all_ended(platform)
    await assert_it_is_whole(platform, made)


async def test_a_compute_that_dies_meanwhile_is_started_again(platform: Platform, jumping: Jumping) -> None:
    jumping.jump(DAY)
    made = await platform.create_ready_project()
    jumping.jump(-DAY)
    await platform.query(made, "create table kept as select 1 as one")
    await platform.stop_computes()  # behind the rows' back
    async with at_work(platform):
        await noticed(platform, made["project"]["id"])
        await all_ended(platform)
    assert await platform.query(made, "select one from kept") == 1


async def test_a_key_goes_on_working(platform: Platform, jumping: Jumping) -> None:
    for jump in (DAY, -2 * DAY, DAY):
        jumping.jump(jump)
        assert (await platform.client.get(f"{API}/projects")).status_code == 200
