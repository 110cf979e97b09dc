"""Metrics of computes over time: sampled on real Postgres, exact across restarts, and bounded on the disk."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from bough import clock
from bough.config import Settings
from bough.control.platform.tls_files import TlsFiles
from bough.domain.gateway_reports import EndpointReport, PoolReport
from bough.domain.metrics.fields import MACHINE_FIELDS, MACHINE_SERIES
from bough.domain.metrics.points import GaugeCell, Point, merge_points
from bough.domain.metrics.tiers import HOUR, MetricRange
from bough.ids import EndpointId
from bough.tasks.expire_metrics import ExpireMetrics
from bough.tasks.loop import Loop
from bough.tasks.loops import create_loops
from bough.tasks.measure_branches import MeasureBranches
from bough.tasks.roll_up_metrics import RollUpMetrics
from bough.tasks.sample_computes import SampleComputes
from support.platform import API, Platform

NOON = int(datetime(2027, 1, 15, 12, tzinfo=UTC).timestamp())


class FakeClock:
    """The wall clock, and with it the monotonic clock unless it is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = float(NOON)
        self._monotonic = clock.monotonic()
        monkeypatch.setattr(clock, "now", lambda: datetime.fromtimestamp(self.seconds, UTC))
        monkeypatch.setattr(clock, "monotonic", lambda: self._monotonic)

    def advance(self, seconds: float = 15) -> None:
        self.seconds += seconds
        self._monotonic += seconds


@pytest.fixture
def fake_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[], FakeClock]:
    """Start it when the computes run: their start waits for the real clock."""
    return lambda: FakeClock(monkeypatch)


def create_task(platform: Platform) -> SampleComputes:
    services = platform.services
    return SampleComputes(platform.store, platform.engine, services.activity, services.compute_measurements)


async def insert(platform: Platform, created: dict[str, Any], count: int) -> None:
    await platform.query(created, f"insert into things select generate_series(1, {count})")
    platform.services.activity.mark_requested(EndpointId(created["endpoints"][0]["id"]))


async def read(platform: Platform, series: str, step: int = 15) -> dict[int, Point]:
    """Return the points by the seconds since noon."""
    wanted = MetricRange(start=NOON - HOUR, end=NOON + 3 * HOUR, step=step)
    async with platform.store.read() as rows:
        points = (await rows.metrics.read_points([series], wanted))[series]
    return {at - NOON: point for at, point in points.items()}


async def sum_inserted(platform: Platform, series: str, step: int = 15) -> int:
    merged: Point = {}
    for point in (await read(platform, series, step)).values():
        merged = merge_points(merged, point)
    value = merged.get("rows_inserted", 0)
    assert isinstance(value, int)
    return value


async def start_project(platform: Platform) -> tuple[dict[str, Any], EndpointId]:
    created = await platform.create_ready_project()
    await platform.query(created, "create table things (number int)")
    return created, EndpointId(created["endpoints"][0]["id"])


async def test_what_clients_did_is_in_the_sample_of_its_interval(
    platform: Platform, fake_clock: Callable[[], FakeClock]
) -> None:
    created, endpoint = await start_project(platform)
    now, task = fake_clock(), create_task(platform)
    await task.run()
    now.advance()
    await insert(platform, created, 700)
    await task.run()
    now.advance()
    await task.run()
    points = await read(platform, endpoint)
    assert list(points) == [-15, 0, 15]
    assert (points[0]["rows_inserted"], points[15]["rows_inserted"]) == (700, 0)
    wal = points[0]["wal_bytes"]
    assert isinstance(wal, int)
    assert 10_000 < wal < 10_000_000
    assert "cpu_seconds" not in points[-15]  # unknown until there is something to compare with
    assert {"cpu_seconds", "cpu_cores", "memory_bytes", "transactions_committed", "blocks_hit"} <= points[0].keys()
    assert "replica_lag_bytes" not in points[0]


async def test_an_unused_compute_is_not_asked_again(
    platform: Platform, fake_clock: Callable[[], FakeClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    created, endpoint = await start_project(platform)
    now, task, asked = fake_clock(), create_task(platform), []
    read_statistics = platform.engine.read_statistics

    async def count_and_read(endpoint_id: EndpointId) -> Any:
        asked.append(now.seconds)
        return await read_statistics(endpoint_id)

    monkeypatch.setattr(platform.engine, "read_statistics", count_and_read)
    for number in range(6):
        if number == 3:
            await insert(platform, created, 10)
        await task.run()
        now.advance()
    # At the start and after the use, each time once more for transactions that Postgres reports late.
    assert [each - NOON for each in asked] == [0, 15, 45, 60]
    sessions = "select count(*) from pg_stat_activity where application_name = 'bough'"
    assert await platform.query(created, sessions) == 0
    assert await sum_inserted(platform, endpoint) == 10


async def test_nothing_is_lost_or_repeated_when_control_restarts(
    platform: Platform, fake_clock: Callable[[], FakeClock]
) -> None:
    created, endpoint = await start_project(platform)
    now = fake_clock()
    await create_task(platform).run()
    for _ in range(3):  # each time with a new task, as after a restart
        now.advance()
        await insert(platform, created, 100)
        await create_task(platform).run()
    assert await sum_inserted(platform, endpoint) == 300


async def test_a_failed_write_is_made_up_for_by_the_next_sample(
    platform: Platform, fake_clock: Callable[[], FakeClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    created, endpoint = await start_project(platform)
    now, task = fake_clock(), create_task(platform)
    await task.run()
    now.advance()
    await insert(platform, created, 100)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="full"):
        patch.setattr(platform.store, "transaction", _fail)
        await task.run()
    now.advance()
    await task.run()
    points = await read(platform, endpoint)
    assert list(points) == [-15, 15]
    assert points[15]["rows_inserted"] == 100


def _fail(**_: Any) -> Any:
    raise OSError("the disk is full")


async def test_a_clock_that_is_set_loses_and_repeats_nothing(
    platform: Platform, fake_clock: Callable[[], FakeClock]
) -> None:
    created, endpoint = await start_project(platform)
    now, task = fake_clock(), create_task(platform)
    for jump in (0, 0, -30, 0, 0, 7200, 0, -7000, 0, 0):
        await task.run()
        now.advance()
        now.seconds += jump
        await insert(platform, created, 10)
    await task.run()
    assert await sum_inserted(platform, endpoint) == 100
    assert all(isinstance(point["memory_bytes"], GaugeCell) for point in (await read(platform, endpoint)).values())


async def test_a_compute_that_does_not_run_has_a_gap_and_counts_on(
    platform: Platform, fake_clock: Callable[[], FakeClock]
) -> None:
    created, endpoint = await start_project(platform)
    now, task = fake_clock(), create_task(platform)
    await task.run()
    now.advance()
    await insert(platform, created, 10)
    await task.run()  # leaves a session open
    await post_action(platform, created, "suspend")
    now.advance()
    await task.run()
    await post_action(platform, created, "start")
    await insert(platform, created, 20)
    now.advance(15)
    await task.run()
    points = await read(platform, endpoint)
    assert list(points) == [-15, 0, 30]
    assert (points[0]["rows_inserted"], points[30]["rows_inserted"]) == (10, 20)
    assert "cpu_seconds" in points[30]  # it is a new process, all of whose time is new


async def post_action(platform: Platform, created: dict[str, Any], action: str) -> None:
    path = f"{API}/projects/{created['project']['id']}/endpoints/{created['endpoints'][0]['id']}/{action}"
    assert (await platform.client.post(path)).status_code == 200
    await platform.run_operations()


async def test_connections_and_storage_come_from_those_who_know_them(
    platform: Platform, fake_clock: Callable[[], FakeClock]
) -> None:
    _, endpoint = await start_project(platform)
    services = platform.services
    await MeasureBranches(platform.store, platform.engine, services.compute_measurements, services.activity).run()
    fake_clock()
    pool = PoolReport(clients_active=1, clients_idle=2, servers_active=1)
    report = EndpointReport(endpoint=endpoint, connections=7, is_active=True, pool=pool)
    await services.activity.report("worker", 1, [report])
    await create_task(platform).run()
    [point] = (await read(platform, endpoint)).values()
    expected = {"connections_direct": 4, "connections_pooled": 3, "connections_of_pools": 1}
    assert {name: point[name] for name in expected} == {name: (count, 1, count) for name, count in expected.items()}
    storage = point["storage_bytes"]
    assert isinstance(storage, GaugeCell)
    assert storage.maximum > 1_000_000


async def test_the_machine_has_a_series_of_its_own(platform: Platform, fake_clock: Callable[[], FakeClock]) -> None:
    now, task = fake_clock(), create_task(platform)
    await task.run()
    now.advance()
    await task.run()
    points = await read(platform, MACHINE_SERIES)
    assert points[0].keys() == {field.name for field in MACHINE_FIELDS}
    assert points[0]["computes_running"] == (0, 1, 0)


async def test_it_runs_at_multiples_of_fifteen_seconds(platform: Platform, fake_clock: Callable[[], FakeClock]) -> None:
    now, task = fake_clock(), create_task(platform)
    for second, interval in ((0, 15), (1.25, 13.75), (14.75, 0.25)):
        now.seconds = NOON + second
        assert task.interval == interval
    await task.run()
    assert list(await read(platform, MACHINE_SERIES)) == [0]  # a timer that ends early still belongs to this interval


async def test_hours_are_rolled_up_and_old_samples_deleted(
    platform: Platform, fake_clock: Callable[[], FakeClock]
) -> None:
    created, endpoint = await start_project(platform)
    now, task = fake_clock(), create_task(platform)
    roll_up, expire = RollUpMetrics(platform.store), ExpireMetrics(platform.settings, platform.store)
    now.advance(HOUR / 2)
    await task.run()
    for _ in range(3):
        now.advance()
        await insert(platform, created, 10)
        await task.run()
    now.advance(HOUR / 2)
    for _ in range(2):  # one shard in each run: those of the endpoint and of the machine, in one hour
        await roll_up.run()
    assert await sum_inserted(platform, endpoint, 60) == await sum_inserted(platform, endpoint, HOUR) == 30
    await expire.run()
    assert await sum_inserted(platform, endpoint) == 30
    now.advance(HOUR)
    await expire.run()
    assert await read(platform, endpoint) == {}
    assert await sum_inserted(platform, endpoint, 60) == 30
    now.advance(2 * 86400)
    await expire.run()
    assert await read(platform, endpoint, 60) == {}
    assert await sum_inserted(platform, endpoint, HOUR) == 30
    now.advance(32 * 86400)
    await expire.run()
    assert await read(platform, endpoint, HOUR) == {}


async def test_more_than_the_budget_is_deleted(platform: Platform, fake_clock: Callable[[], FakeClock]) -> None:
    now, task = fake_clock(), create_task(platform)
    for _ in range(3):
        await task.run()
        now.advance()
    size = await measure_size(platform)
    settings: Settings = platform.settings.model_copy(update={"metrics_disk_bytes": size - 1})
    assert "metrics_disk_bytes" in await ExpireMetrics(settings, platform.store).run()
    assert list(await read(platform, MACHINE_SERIES)) == [0, 15]
    assert await measure_size(platform) < size
    assert await ExpireMetrics(settings, platform.store).run() == ""


async def measure_size(platform: Platform) -> int:
    async with platform.store.read() as rows:
        return sum(group.bytes for group in await rows.metrics.list_sizes())


async def test_without_a_budget_nothing_is_sampled(platform: Platform) -> None:
    services = replace(platform.services, settings=platform.settings.model_copy(update={"metrics_disk_bytes": 0}))
    for loops, is_sampled in (
        (platform.inner.loops, True),
        (create_loops(services, platform.engine, TlsFiles(platform.settings, None)), False),
    ):
        assert any(isinstance(task, SampleComputes) for loop in loops for task in loop.tasks) == is_sampled


async def test_a_loop_asks_for_the_interval_after_each_run(
    platform: Platform, fake_clock: Callable[[], FakeClock]
) -> None:
    now, task = fake_clock(), create_task(platform)
    loop = Loop(platform.store, (task,), "samples")
    now.advance(4)
    for seconds in (0, 11, 14.9, 0.1):
        now.advance(seconds)
        await loop.run_due()
    assert list(await read(platform, MACHINE_SERIES)) == [-15, 0, 15]
