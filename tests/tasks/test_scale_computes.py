"""Computes between two limits grow while they are busy and shrink when they are quiet; clients notice nothing."""

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
from bough.tasks.count_active_time import CountActiveTime
from bough.tasks.scale_computes import ScaleComputes
from support.platform import API, Platform

LIMITS = {"autoscaling_limit_min_cu": 0.25, "autoscaling_limit_max_cu": 2}
LOOKS = 100  # after which a test gives up
MOMENT = 0.1  # between two looks


async def elastic(platform: Platform, **settings: Any) -> dict[str, Any]:
    return await platform.create_ready_project(default_endpoint_settings={**LIMITS, **settings})


def endpoint_of(made: dict[str, Any]) -> EndpointId:
    return EndpointId(made["endpoints"][0]["id"])


async def size(platform: Platform, made: dict[str, Any]) -> float:
    return (await platform.engine.observe()).cu_by_endpoint[endpoint_of(made)]


@asynccontextmanager
async def client(platform: Platform, made: dict[str, Any]) -> AsyncIterator[Any]:
    parameters = made["connection_uris"][0]["connection_parameters"]
    async with platform.connect(endpoint_of(made), parameters["role"], parameters["database"]) as connection:
        yield connection


@asynccontextmanager
async def busy(platform: Platform, made: dict[str, Any]) -> AsyncIterator[None]:
    """Its processors have work meanwhile."""
    async with client(platform, made) as worker:
        work = asyncio.create_task(worker.execute("select count(*) from generate_series(1, 100000000000) n"))
        try:
            yield
        finally:
            work.cancel()
            await asyncio.wait([work])


async def looks_until(task: ScaleComputes, platform: Platform, made: dict[str, Any], wanted: set[float]) -> int:
    for looks in range(LOOKS):
        if await size(platform, made) in wanted:
            return looks
        await task.run()
        await asyncio.sleep(MOMENT)
    raise AssertionError(f"the size is {await size(platform, made)} after {LOOKS} looks")


async def test_it_grows_with_work_and_shrinks_without_while_a_client_stays(platform: Platform) -> None:
    made = await elastic(platform)
    task = ScaleComputes(platform.store, platform.engine, platform.services.activity)
    async with client(platform, made) as steady:
        started = await steady.fetchval("select pg_postmaster_start_time()")
        before = await steady.fetchval("show effective_cache_size")
        transaction = steady.transaction()
        await transaction.start()
        await steady.execute("create table kept (one int)")
        async with busy(platform, made):
            await looks_until(task, platform, made, {0.5, 0.75, 1, 2})
        grown = await steady.fetchval("show effective_cache_size")
        assert await looks_until(task, platform, made, {0.25}) >= SCALE_DOWN_SAMPLES
        await transaction.commit()
        assert await steady.fetchval("select count(*) from kept") == 0
        assert (before, grown != before) == ("768MB", True)
        assert await steady.fetchval("show effective_cache_size") == before
        assert await steady.fetchval("select pg_postmaster_start_time()") == started


class Readings:
    """An engine that tells what a test says, and does what it is told."""

    def __init__(self, platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cores: dict[EndpointId, float | EngineError] = {}
        self._cpu: dict[EndpointId, float] = {}
        self._platform = platform
        self._past = 0.0
        monotonic = clock.monotonic
        monkeypatch.setattr(platform.engine, "read_load", self._load)
        monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + self._past)

    def passes(self, seconds: float) -> None:
        self._past += seconds
        for endpoint, cores in self.cores.items():
            if not isinstance(cores, EngineError):
                self._cpu[endpoint] = self._cpu.get(endpoint, 0.0) + cores * seconds

    async def _load(self, endpoint: EndpointId) -> LoadSample | None:
        cores = self.cores[endpoint]
        if isinstance(cores, EngineError):
            raise cores
        sizes = (await self._platform.engine.observe()).cu_by_endpoint
        return LoadSample(cu=sizes[endpoint], cpu_seconds=self._cpu.get(endpoint, 0.0), memory_bytes=0)


async def look(task: ScaleComputes, readings: Readings, times: int = 1) -> list[str]:
    said = []
    for _ in range(times):
        readings.passes(task.interval)
        said.append(await task.run())
    return said


async def test_one_busy_look_is_enough_and_quiet_ones_must_be_many(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await elastic(platform)
    task, readings = (
        ScaleComputes(platform.store, platform.engine, platform.services.activity),
        Readings(platform, monkeypatch),
    )
    readings.cores[endpoint_of(made)] = 1.5
    assert await look(task, readings, 2) == ["", "resized 1 computes"]
    assert await size(platform, made) == 2
    readings.cores[endpoint_of(made)] = 0.3
    assert await look(task, readings, SCALE_DOWN_SAMPLES) == [""] * (SCALE_DOWN_SAMPLES - 1) + ["resized 1 computes"]
    assert await size(platform, made) == 0.5


async def test_equal_limits_are_not_even_looked_at(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await platform.create_ready_project()
    task, readings = (
        ScaleComputes(platform.store, platform.engine, platform.services.activity),
        Readings(platform, monkeypatch),
    )
    readings.cores = {endpoint_of(made): EngineError("nobody may ask")}
    assert await look(task, readings, 3) == [""] * 3
    assert await size(platform, made) == 0.25
    assert not task._samples


async def test_one_that_cannot_be_asked_does_not_keep_the_others(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    sick, well = await elastic(platform), await elastic(platform)
    task, readings = (
        ScaleComputes(platform.store, platform.engine, platform.services.activity),
        Readings(platform, monkeypatch),
    )
    readings.cores = {endpoint_of(sick): EngineError("it does not answer"), endpoint_of(well): 1.5}
    await look(task, readings, 2)
    assert (await size(platform, sick), await size(platform, well)) == (0.25, 2)
    readings.cores[endpoint_of(sick)] = 1.5  # it is left alone for a while, and then looked at again
    await look(task, readings, 10)
    assert await size(platform, sick) == 2


async def test_a_new_control_begins_with_the_size_it_finds(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await elastic(platform)
    readings = Readings(platform, monkeypatch)
    readings.cores[endpoint_of(made)] = 1.3
    await platform.engine.resize(endpoint_of(made), 2)
    later = ScaleComputes(platform.store, platform.engine, platform.services.activity)
    assert await look(later, readings, 2 * SCALE_DOWN_SAMPLES) == [""] * 2 * SCALE_DOWN_SAMPLES
    assert await size(platform, made) == 2


async def test_one_that_sleeps_is_forgotten_and_wakes_small(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await elastic(platform)
    task, readings = (
        ScaleComputes(platform.store, platform.engine, platform.services.activity),
        Readings(platform, monkeypatch),
    )
    readings.cores[endpoint_of(made)] = 1.5
    await look(task, readings, 2)
    path = f"{API}/projects/{made['project']['id']}/endpoints/{endpoint_of(made)}"
    assert (await platform.client.post(f"{path}/suspend")).status_code == 200
    await platform.run_operations()
    await look(task, readings)
    assert not task._samples
    assert (await platform.client.post(f"{path}/start")).status_code == 200
    await platform.run_operations()
    assert await size(platform, made) == 0.25


async def test_time_is_counted_by_the_size_of_the_moment(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await elastic(platform)
    past, now = timedelta(), clock.now
    monkeypatch.setattr(clock, "now", lambda: now() + past)
    task = CountActiveTime(platform.store, platform.engine)
    await task.run()

    async def compute_seconds() -> float:
        async with platform.store.read() as rows:
            usage = await rows.usage.get(endpoint_of(made))
        assert usage is not None
        return usage.compute_seconds

    before = await compute_seconds()
    past += timedelta(seconds=4000)
    await task.run()
    small = await compute_seconds()
    await platform.engine.resize(endpoint_of(made), 1)
    past += timedelta(seconds=4000)
    await task.run()
    large = await compute_seconds()
    past += timedelta(seconds=4000)
    path = f"{API}/projects/{made['project']['id']}/endpoints/{endpoint_of(made)}/suspend"
    assert (await platform.client.post(path)).status_code == 200
    await platform.run_operations()
    last = await compute_seconds()
    assert [round((last - large) / 1000), round((large - small) / 1000), round((small - before) / 1000)] == [4, 4, 1]


# The settings that its owner gave it.

GIVEN = "select current_setting('work_mem') || ' ' || current_setting('max_prepared_transactions')"
STARTED = "select pg_postmaster_start_time()"


async def change(platform: Platform, made: dict[str, Any], **settings: str) -> None:
    path = f"{API}/projects/{made['project']['id']}/endpoints/{endpoint_of(made)}"
    answer = await platform.client.patch(path, json={"endpoint": {"settings": {"pg_settings": settings}}})
    assert answer.status_code == 200, answer.text
    await platform.run_operations()


async def test_settings_of_a_tenant_survive_sleep_and_a_resize(platform: Platform) -> None:
    made = await elastic(platform, pg_settings={"work_mem": "21MB", "max_prepared_transactions": "7"})
    assert await platform.query(made, GIVEN) == "21MB 7"
    path = f"{API}/projects/{made['project']['id']}/endpoints/{endpoint_of(made)}"
    for verb in ("suspend", "start"):
        assert (await platform.client.post(f"{path}/{verb}")).status_code == 200
        await platform.run_operations()
    await platform.engine.resize(endpoint_of(made), 2)
    assert await platform.query(made, GIVEN) == "21MB 7"


async def test_a_setting_that_needs_a_restart_comes_by_one_and_others_do_not(platform: Platform) -> None:
    made = await elastic(platform)
    started = await platform.query(made, STARTED)
    await platform.engine.resize(endpoint_of(made), 1)
    await change(platform, made, work_mem="9MB")
    assert (await platform.query(made, GIVEN), await platform.query(made, STARTED)) == ("9MB 0", started)
    await change(platform, made, work_mem="9MB", max_prepared_transactions="3")
    assert await platform.query(made, GIVEN) == "9MB 3"
    assert await platform.query(made, STARTED) != started
    assert await size(platform, made) == 1
