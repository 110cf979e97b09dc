"""Rule 3: computes that do not reply, or reply with nonsense, delay no sample of others and store no absurd values."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from bough import clock
from bough.control.gateway.activity import EndpointActivity
from bough.control.platform.measurements import ComputeMeasurements
from bough.domain.endpoint import EndpointState
from bough.domain.metrics.fields import COMPUTE_FIELDS, POSTGRES_COUNTERS
from bough.domain.metrics.points import GaugeCell, Point, merge_points
from bough.domain.metrics.tiers import SAMPLE_SECONDS, MetricRange, align
from bough.engine.local.computes import kept_sessions
from bough.engine.local.computes.kept_sessions import KeptSessions
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.folders import Folders
from bough.engine.local.sampling import LocalSampling
from bough.engine.port import MachineSample, ProcessSample, SamplingEngine
from bough.ids import EndpointId, VolumeId
from bough.store.sqlite import SqliteStore
from bough.tasks import inspections, statistics_reads
from bough.tasks.sample_computes import SampleComputes
from security import fake_postgres
from security.fake_postgres import INT8, TEXT, FakeConnection, Script
from support.folders import temporary_folder
from support.stores import add_project, make_endpoint, make_project

UNRESPONSIVE = 2 * inspections.MAX_SLOW  # more than there are slots
TIMESTAMP, FLOAT8 = 1184, 701
COLUMNS = (
    *((name, INT8) for name in POSTGRES_COUNTERS),
    ("reset_at", TIMESTAMP),
    ("wal_position", INT8),
    ("replayed_position", INT8),
    ("replay_age", FLOAT8),
)
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # of Postgres
MEMORY = 5_000_000


class FakeRun:
    volume_id = VolumeId("vol-fake")


class FakeRunning:
    """Computes whose sockets belong to fake servers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def find_run(self, _endpoint: EndpointId) -> FakeRun:
        return FakeRun()

    async def find_sockets(self, endpoint: EndpointId) -> Path:
        return self._folder / endpoint[-8:]


class FakeSampling(LocalSampling):
    def __init__(self, folder: Path, endpoints: Sequence[EndpointId]) -> None:
        running = cast(RunningComputes, FakeRunning(folder))
        super().__init__(running, KeptSessions(), cast(Folders, None), floor=0)
        self._endpoints = endpoints

    async def sample_processes(self) -> Mapping[EndpointId, ProcessSample]:
        return {each: ProcessSample(run="1/1", cpu_seconds=1.0, memory_bytes=MEMORY) for each in self._endpoints}

    async def sample_machine(self) -> MachineSample:
        return MachineSample(
            cpu_seconds=1.0,
            cpu_cores=1,
            load_average=0.0,
            memory_used_bytes=1,
            memory_total_bytes=2,
            disk_used_bytes=1,
            disk_total_bytes=2,
        )


class SampleSetup:
    def __init__(self, store: SqliteStore, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.servers = AsyncExitStack()
        self.now = float(align(clock.now().timestamp(), SAMPLE_SECONDS))
        self._first = int(self.now)

    async def create_task(self, scripts: Sequence[Script]) -> tuple[SampleComputes, list[EndpointId]]:
        """Start a compute in a project of its own for each script."""
        endpoints: list[EndpointId] = []
        for script in scripts:
            branch, _ = await add_project(self.store, make_project())
            endpoint = make_endpoint(branch, state=EndpointState.ACTIVE, pending_state=None)
            async with self.store.transaction() as rows:
                await rows.endpoints.add(endpoint)
            folder = self.folder / endpoint.id[-8:]
            await self.servers.enter_async_context(fake_postgres.serve_fake_postgres(folder, script))
            endpoints.append(endpoint.id)
        engine: SamplingEngine = FakeSampling(self.folder, endpoints)
        self.servers.push_async_callback(engine.retain_sessions, ())
        self._activity = EndpointActivity(self.store)
        return SampleComputes(self.store, engine, self._activity, ComputeMeasurements()), endpoints

    def advance(self, endpoints: Sequence[EndpointId]) -> None:
        """Go to the next round, for which the computes were used."""
        self.now += SAMPLE_SECONDS
        for each in endpoints:
            self._activity.mark_requested(each)

    async def read(self, endpoint: EndpointId) -> Point:
        wanted = MetricRange(start=self._first - 60, end=int(self.now) + 60, step=SAMPLE_SECONDS)
        async with self.store.read() as rows:
            points = await rows.metrics.read_points([endpoint], wanted)
        merged: Point = {}
        for point in points[endpoint].values():
            merged = merge_points(merged, point)
        return merged


@pytest.fixture
async def sample_setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SampleSetup]:
    monkeypatch.setattr(inspections, "SLOW_AFTER_SECONDS", 0.05)
    monkeypatch.setattr(statistics_reads, "PHASE_SECONDS", 0.5)
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    with temporary_folder() as folder:
        opened = SampleSetup(store, folder)
        monkeypatch.setattr(clock, "now", lambda: datetime.fromtimestamp(opened.now, UTC))
        async with opened.servers:
            yield opened
    await store.close()


def int8(value: int) -> bytes:
    return struct.pack("!q", value)


def make_row(count: int, reset_at: datetime, *rest: bytes | None) -> bytes:
    reset = int8(int((reset_at - EPOCH) / timedelta(microseconds=1)))
    return fake_postgres.row(*[int8(count)] * len(POSTGRES_COUNTERS), reset, *(rest or (int8(count), None, None)))


def reply_with(
    rows: Callable[[FakeConnection], Awaitable[None]], columns: Sequence[tuple[str, int]] = COLUMNS
) -> Script:
    return fake_postgres.make_query_script(columns, rows)


def counting(counts: list[int], reset_at: datetime) -> Script:
    """Reply to each statement with the next count."""

    async def rows(connection: FakeConnection) -> None:
        await connection.send(make_row(counts.pop(0) if len(counts) > 1 else counts[0], reset_at))

    return reply_with(rows)


async def test_computes_that_do_not_reply_delay_no_sample_of_others(sample_setup: SampleSetup) -> None:
    reset_at = clock.now() - timedelta(days=1)
    scripts = [fake_postgres.never_reply] * UNRESPONSIVE + [counting([100, 107], reset_at)]
    task, endpoints = await sample_setup.create_task(scripts)
    async with asyncio.timeout(60):  # a failing test would otherwise take minutes
        for _ in range(3):
            await task.run()
            sample_setup.advance(endpoints)
    assert (await sample_setup.read(endpoints[-1]))["rows_inserted"] == 7
    for each in endpoints[:-1]:
        point = await sample_setup.read(each)
        assert "rows_inserted" not in point  # unknown, not zero
        assert point["memory_bytes"] == GaugeCell(3 * MEMORY, 3, MEMORY)


@pytest.mark.parametrize(
    "counts",
    [[0, 2**63 - 1], [2**63 - 1, 0, 2**63 - 1], [5, 2**62, 3, 2**61]],
    ids=lambda counts: "-".join(map(str, counts)),
)
async def test_no_count_becomes_absurd_or_negative(sample_setup: SampleSetup, counts: list[int]) -> None:
    task, endpoints = await sample_setup.create_task([counting(list(counts), clock.now() - timedelta(days=1))])
    for _ in range(len(counts) + 1):
        await task.run()
        sample_setup.advance(endpoints)
    point = await sample_setup.read(endpoints[0])
    for field in COMPUTE_FIELDS:
        cell = point.get(field.name)
        if isinstance(cell, int):
            assert 0 <= cell <= field.limit * SAMPLE_SECONDS * (len(counts) + 1)


async def send_text(connection: FakeConnection) -> None:
    await connection.send(fake_postgres.row(*[b"nonsense"] * len(COLUMNS)))


async def send_nothing(_connection: FakeConnection) -> None: ...


async def send_endlessly(connection: FakeConnection) -> None:
    await connection.send_endlessly(make_row(1, EPOCH) * 1000)


async def send_strange_ages(connection: FakeConnection) -> None:
    await connection.send(make_row(1, clock.now(), None, int8(5), struct.pack("!d", float("nan"))))


async def send_negative(connection: FakeConnection) -> None:
    await connection.send(make_row(-5, clock.now()))


@pytest.mark.parametrize("rows", [send_text, send_nothing, send_endlessly, send_strange_ages, send_negative])
async def test_a_reply_without_sense_stores_nothing(
    sample_setup: SampleSetup, rows: Callable[[FakeConnection], Awaitable[None]]
) -> None:
    columns = [(name, TEXT) for name, _ in COLUMNS] if rows is send_text else COLUMNS
    task, endpoints = await sample_setup.create_task([reply_with(rows, columns)])
    for _ in range(2):
        await task.run()
        sample_setup.advance(endpoints)
    point = await sample_setup.read(endpoints[0])
    assert not point.keys() & {*POSTGRES_COUNTERS, "wal_bytes", "replica_lag_bytes"}
    assert point["memory_bytes"] == GaugeCell(2 * MEMORY, 2, MEMORY)


async def test_what_comes_while_a_session_is_idle_is_bounded(
    sample_setup: SampleSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = kept_sessions.SAMPLING_LIMITS
    monkeypatch.setattr(
        kept_sessions, "SAMPLING_LIMITS", replace(limits, response=replace(limits.response, messages=50))
    )
    answered, flooded, sent = asyncio.Event(), asyncio.Event(), []

    async def rows(connection: FakeConnection) -> None:
        await connection.send(make_row(1, clock.now()))
        asyncio.get_running_loop().call_later(0.05, answered.set)

    async def script(connection: FakeConnection) -> None:
        serving = asyncio.create_task(cast(Any, reply_with(rows))(connection))
        await answered.wait()
        try:
            await connection.send_endlessly(fake_postgres.parameter("application_name", "x" * 1000))
        finally:
            sent.append(connection.sent)
            serving.cancel()
            flooded.set()

    task, endpoints = await sample_setup.create_task([script])
    await task.run()
    async with asyncio.timeout(60):
        await flooded.wait()
    assert sent[0] < fake_postgres.MAX_BYTES  # the platform has ended the connection
    sample_setup.advance(endpoints)
    await task.run()
    assert (await sample_setup.read(endpoints[0]))["memory_bytes"] == GaugeCell(2 * MEMORY, 2, MEMORY)
