"""Autoscaling: computes grow while busy and shrink while idle, without interrupting clients."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from bough import clock
from bough.domain.autoscaling import SCALE_DOWN_SAMPLES
from bough.engine.port import EngineError, LoadSample
from bough.ids import EndpointId
from bough.tasks.count_usage import CountUsage
from bough.tasks.scale_computes import ScaleComputes
from support.platform import API, Platform

LIMITS = {"autoscaling_limit_min_cu": 0.25, "autoscaling_limit_max_cu": 2}
MAX_RUNS = 100  # task runs after which a test gives up
INTERVAL = 0.1  # seconds between two runs


async def create_elastic_project(platform: Platform, **settings: Any) -> dict[str, Any]:
    return await platform.create_ready_project(default_endpoint_settings={**LIMITS, **settings})


def endpoint_of(created: dict[str, Any]) -> EndpointId:
    return EndpointId(created["endpoints"][0]["id"])


async def read_size(platform: Platform, created: dict[str, Any]) -> float:
    return (await platform.engine.observe()).cu_by_endpoint[endpoint_of(created)]


@asynccontextmanager
async def open_client(platform: Platform, created: dict[str, Any]) -> AsyncIterator[Any]:
    parameters = created["connection_uris"][0]["connection_parameters"]
    async with platform.connect(endpoint_of(created), parameters["role"], parameters["database"]) as connection:
        yield connection


@asynccontextmanager
async def keep_busy(platform: Platform, created: dict[str, Any]) -> AsyncIterator[None]:
    """Keeps the compute busy with a long query."""
    async with open_client(platform, created) as worker:
        work = asyncio.create_task(worker.execute("select count(*) from generate_series(1, 100000000000) n"))
        try:
            yield
        finally:
            work.cancel()
            await asyncio.wait([work])


async def run_until_size(task: ScaleComputes, platform: Platform, created: dict[str, Any], expected: set[float]) -> int:
    for runs in range(MAX_RUNS):
        if await read_size(platform, created) in expected:
            return runs
        await task.run()
        await asyncio.sleep(INTERVAL)
    raise AssertionError(f"the size is {await read_size(platform, created)} after {MAX_RUNS} runs")


async def test_it_grows_with_work_and_shrinks_without_while_a_client_stays(platform: Platform) -> None:
    created = await create_elastic_project(platform)
    task = ScaleComputes(platform.store, platform.engine, platform.services.activity)
    async with open_client(platform, created) as session:
        started = await session.fetchval("select pg_postmaster_start_time()")
        before = await session.fetchval("show effective_cache_size")
        transaction = session.transaction()
        await transaction.start()
        await session.execute("create table kept (one int)")
        async with keep_busy(platform, created):
            await run_until_size(task, platform, created, {0.5, 0.75, 1, 2})
        grown = await session.fetchval("show effective_cache_size")
        assert await run_until_size(task, platform, created, {0.25}) >= SCALE_DOWN_SAMPLES
        await transaction.commit()
        assert await session.fetchval("select count(*) from kept") == 0
        assert (before, grown != before) == ("768MB", True)
        assert await session.fetchval("show effective_cache_size") == before
        assert await session.fetchval("select pg_postmaster_start_time()") == started


class FakeLoad:
    """Replaces the load that the engine reads with values of the test."""

    def __init__(self, platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cores: dict[EndpointId, float | EngineError] = {}
        self._cpu: dict[EndpointId, float] = {}
        self._platform = platform
        self._offset = 0.0
        monotonic = clock.monotonic
        monkeypatch.setattr(platform.engine, "read_load", self._load)
        monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + self._offset)

    def advance(self, seconds: float) -> None:
        self._offset += seconds
        for endpoint, cores in self.cores.items():
            if not isinstance(cores, EngineError):
                self._cpu[endpoint] = self._cpu.get(endpoint, 0.0) + cores * seconds

    async def _load(self, endpoint: EndpointId) -> LoadSample | None:
        cores = self.cores[endpoint]
        if isinstance(cores, EngineError):
            raise cores
        sizes = (await self._platform.engine.observe()).cu_by_endpoint
        return LoadSample(cu=sizes[endpoint], cpu_seconds=self._cpu.get(endpoint, 0.0), memory_bytes=0)


async def run_task(task: ScaleComputes, fake_load: FakeLoad, times: int = 1) -> list[str]:
    results = []
    for _ in range(times):
        fake_load.advance(task.interval)
        results.append(await task.run())
    return results


async def test_one_busy_look_is_enough_and_quiet_ones_must_be_many(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = await create_elastic_project(platform)
    task, fake_load = (
        ScaleComputes(platform.store, platform.engine, platform.services.activity),
        FakeLoad(platform, monkeypatch),
    )
    fake_load.cores[endpoint_of(created)] = 1.5
    assert await run_task(task, fake_load, 2) == ["", "resized 1 computes"]
    assert await read_size(platform, created) == 2
    fake_load.cores[endpoint_of(created)] = 0.3
    assert await run_task(task, fake_load, SCALE_DOWN_SAMPLES) == [""] * (SCALE_DOWN_SAMPLES - 1) + [
        "resized 1 computes"
    ]
    assert await read_size(platform, created) == 0.5


async def test_equal_limits_are_not_even_looked_at(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    created = await platform.create_ready_project()
    task, fake_load = (
        ScaleComputes(platform.store, platform.engine, platform.services.activity),
        FakeLoad(platform, monkeypatch),
    )
    fake_load.cores = {endpoint_of(created): EngineError("must not be called")}
    assert await run_task(task, fake_load, 3) == [""] * 3
    assert await read_size(platform, created) == 0.25
    assert not task._samples


async def test_one_that_cannot_be_asked_does_not_keep_the_others(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, healthy = await create_elastic_project(platform), await create_elastic_project(platform)
    task, fake_load = (
        ScaleComputes(platform.store, platform.engine, platform.services.activity),
        FakeLoad(platform, monkeypatch),
    )
    fake_load.cores = {endpoint_of(broken): EngineError("it does not answer"), endpoint_of(healthy): 1.5}
    await run_task(task, fake_load, 2)
    assert (await read_size(platform, broken), await read_size(platform, healthy)) == (0.25, 2)
    fake_load.cores[endpoint_of(broken)] = 1.5  # it is backed off for a while, then read again
    await run_task(task, fake_load, 10)
    assert await read_size(platform, broken) == 2


async def test_a_new_control_begins_with_the_size_it_finds(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    created = await create_elastic_project(platform)
    fake_load = FakeLoad(platform, monkeypatch)
    fake_load.cores[endpoint_of(created)] = 1.3
    await platform.engine.resize(endpoint_of(created), 2)
    new_task = ScaleComputes(platform.store, platform.engine, platform.services.activity)
    assert await run_task(new_task, fake_load, 2 * SCALE_DOWN_SAMPLES) == [""] * 2 * SCALE_DOWN_SAMPLES
    assert await read_size(platform, created) == 2


async def test_one_that_sleeps_is_forgotten_and_wakes_small(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = await create_elastic_project(platform)
    task, fake_load = (
        ScaleComputes(platform.store, platform.engine, platform.services.activity),
        FakeLoad(platform, monkeypatch),
    )
    fake_load.cores[endpoint_of(created)] = 1.5
    await run_task(task, fake_load, 2)
    path = f"{API}/projects/{created['project']['id']}/endpoints/{endpoint_of(created)}"
    assert (await platform.client.post(f"{path}/suspend")).status_code == 200
    await platform.run_operations()
    await run_task(task, fake_load)
    assert not task._samples
    assert (await platform.client.post(f"{path}/start")).status_code == 200
    await platform.run_operations()
    assert await read_size(platform, created) == 0.25


async def test_time_is_counted_by_the_size_of_the_moment(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    created = await create_elastic_project(platform)
    offset, now = timedelta(), clock.now
    monkeypatch.setattr(clock, "now", lambda: now() + offset)
    task = CountUsage(platform.store, platform.engine)
    await task.run()

    async def compute_seconds() -> float:
        async with platform.store.read() as rows:
            found = await rows.project_pages.get(created["project"]["id"])
        assert found is not None
        return found.usage.compute_seconds

    before = await compute_seconds()
    offset += timedelta(seconds=4000)
    await task.run()
    small = await compute_seconds()
    await platform.engine.resize(endpoint_of(created), 1)
    offset += timedelta(seconds=4000)
    await task.run()
    large = await compute_seconds()
    offset += timedelta(seconds=4000)
    path = f"{API}/projects/{created['project']['id']}/endpoints/{endpoint_of(created)}/suspend"
    assert (await platform.client.post(path)).status_code == 200
    await platform.run_operations()
    last = await compute_seconds()
    assert [round((last - large) / 1000), round((large - small) / 1000), round((small - before) / 1000)] == [4, 4, 1]


# Settings of the tenant

SELECT_SETTINGS = "select current_setting('work_mem') || ' ' || current_setting('max_prepared_transactions')"
SELECT_START_TIME = "select pg_postmaster_start_time()"


async def change_settings(platform: Platform, created: dict[str, Any], **settings: str) -> None:
    path = f"{API}/projects/{created['project']['id']}/endpoints/{endpoint_of(created)}"
    response = await platform.client.patch(path, json={"endpoint": {"settings": {"pg_settings": settings}}})
    assert response.status_code == 200, response.text
    await platform.run_operations()


async def test_settings_of_a_tenant_survive_sleep_and_a_resize(platform: Platform) -> None:
    created = await create_elastic_project(platform, pg_settings={"work_mem": "21MB", "max_prepared_transactions": "7"})
    assert await platform.query(created, SELECT_SETTINGS) == "21MB 7"
    path = f"{API}/projects/{created['project']['id']}/endpoints/{endpoint_of(created)}"
    for action in ("suspend", "start"):
        assert (await platform.client.post(f"{path}/{action}")).status_code == 200
        await platform.run_operations()
    await platform.engine.resize(endpoint_of(created), 2)
    assert await platform.query(created, SELECT_SETTINGS) == "21MB 7"


async def test_a_setting_that_needs_a_restart_comes_by_one_and_others_do_not(platform: Platform) -> None:
    created = await create_elastic_project(platform)
    started = await platform.query(created, SELECT_START_TIME)
    await platform.engine.resize(endpoint_of(created), 1)
    await change_settings(platform, created, work_mem="9MB")
    assert (await platform.query(created, SELECT_SETTINGS), await platform.query(created, SELECT_START_TIME)) == (
        "9MB 0",
        started,
    )
    await change_settings(platform, created, work_mem="9MB", max_prepared_transactions="3")
    assert await platform.query(created, SELECT_SETTINGS) == "9MB 3"
    assert await platform.query(created, SELECT_START_TIME) != started
    assert await read_size(platform, created) == 1
