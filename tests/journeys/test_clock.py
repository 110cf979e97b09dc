"""The system clock is set forward and back by a day. Operations end once, and none waits for hours."""

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


class SettableClock:
    """Replaces the system clock; monotonic clocks are not affected."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._offset = timedelta(0)
        real_now = clock.now
        monkeypatch.setattr(clock, "now", lambda: real_now() + self._offset)

    def jump(self, offset: timedelta) -> None:
        self._offset += offset


@pytest.fixture
def settable_clock(monkeypatch: pytest.MonkeyPatch) -> SettableClock:
    return SettableClock(monkeypatch)


@pytest.fixture(params=EVERYDAY_BACKENDS)
async def platform(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> AsyncIterator[Platform]:
    url = "" if request.param == "sqlite" else await postgres_server.create_store_database()
    async with open_platform(store_url=url) as opened:
        yield opened


@asynccontextmanager
async def run_control(platform: Platform) -> AsyncIterator[None]:
    """Runs the runner and the periodic tasks, as control does."""
    coroutines = [platform.inner.runner.run(), *(loop.run() for loop in platform.inner.loops)]
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def wait_for_all_operations(platform: Platform) -> None:
    async with asyncio.timeout(60):
        while True:
            async with platform.store.read() as rows:
                if await rows.operations.count_open() == 0:
                    return
            await asyncio.sleep(0.02)


async def wait_for_new_operations(platform: Platform, project_id: str) -> None:
    """Waits until there are more operations than the two of the creation."""
    async with asyncio.timeout(60):
        while True:
            if len(await platform.list_operations(project_id)) > 2:
                return
            await asyncio.sleep(0.05)


async def check_project(platform: Platform, created: dict[str, Any]) -> None:
    operations = await platform.list_operations(created["project"]["id"])
    assert [(each.stored_action, each.status) for each in operations] == [
        ("create_timeline", OperationStatus.FINISHED),
        ("start_compute", OperationStatus.FINISHED),
    ]
    assert await platform.query(created, "select 1") == 1
    async with platform.store.read() as rows:
        (endpoint,) = await rows.endpoints.list_in_project(ProjectId(created["project"]["id"]))
    assert (endpoint.state, endpoint.pending_state) == ("active", None)


@pytest.mark.parametrize("jump", [DAY, -DAY])
async def test_work_that_is_under_way_ends_once(
    platform: Platform, settable_clock: SettableClock, jump: timedelta
) -> None:
    async with run_control(platform):
        created = [await platform.create_project() for _ in range(2)]
        settable_clock.jump(jump)
        created += [await platform.create_project() for _ in range(2)]
        await asyncio.sleep(0.1)
        settable_clock.jump(-jump)
        await wait_for_all_operations(platform)
    for project in created:
        await check_project(platform, project)
    observed = await platform.engine.observe()
    assert (len(observed.running_endpoints), len(observed.volumes)) == (4, 4)


async def test_work_of_tomorrow_does_not_wait_for_tomorrow(platform: Platform, settable_clock: SettableClock) -> None:
    settable_clock.jump(DAY)
    created = await platform.create_project()
    assert await platform.inner.runner._leases.lease_next() is not None  # the control process with this lease is gone
    settable_clock.jump(-DAY)
    async with run_control(platform):
        await wait_for_all_operations(platform)
    await check_project(platform, created)


async def test_a_compute_that_dies_meanwhile_is_started_again(
    platform: Platform, settable_clock: SettableClock
) -> None:
    settable_clock.jump(DAY)
    created = await platform.create_ready_project()
    settable_clock.jump(-DAY)
    await platform.query(created, "create table kept as select 1 as one")
    await platform.stop_computes()  # without a change of the store
    async with run_control(platform):
        await wait_for_new_operations(platform, created["project"]["id"])
        await wait_for_all_operations(platform)
    assert await platform.query(created, "select one from kept") == 1


async def test_a_key_goes_on_working(platform: Platform, settable_clock: SettableClock) -> None:
    for jump in (DAY, -2 * DAY, DAY):
        settable_clock.jump(jump)
        assert (await platform.client.get(f"{API}/projects")).status_code == 200
