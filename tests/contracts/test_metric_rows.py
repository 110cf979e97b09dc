"""Metrics over time: the rows, in both back ends."""

import random
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bough.domain.metrics.counters import CounterReading
from bough.domain.metrics.fields import COMPUTE_FIELDS, MACHINE_SERIES, POSTGRES_COUNTERS
from bough.domain.metrics.points import Point, make_point, merge_points
from bough.domain.metrics.tiers import DAY, HOUR, MetricRange
from bough.ids import EndpointId
from bough.store.metric_roll_ups import ChunkKey, PendingSamples, SamplesChanged, add_to_chunks, combine_samples
from bough.store.metrics import encode_samples, shard_of
from bough.store.store import Store
from support.stores import add_project, make_project

START = 1_800_000_000 // DAY * DAY
ONE, OTHER = "ep-one", "ep-other"


class Crash(Exception):
    """Stands for the end of the process before the commit."""


def make_sample(rows_inserted: int, memory_bytes: int = 1000) -> Point:
    return make_point(COMPUTE_FIELDS, {"rows_inserted": rows_inserted, "memory_bytes": memory_bytes})


async def add(store: Store, at: int, points: Mapping[str, Point]) -> None:
    async with store.transaction() as rows:
        taken = await rows.metrics.list_sampled_shards(at)
        await rows.metrics.add_samples([each for each in encode_samples(at, points) if each.shard not in taken])


async def read(
    store: Store, step: int, series: Collection[str] = (ONE,), hours: int = 4
) -> dict[str, dict[int, Point]]:
    async with store.read() as rows:
        return await rows.metrics.read_points(series, MetricRange(start=START, end=START + hours * HOUR, step=step))


async def prepare(store: Store, before: int) -> tuple[PendingSamples, dict[ChunkKey, bytes]] | None:
    async with store.read(slow=True) as rows:
        pending = await rows.metric_roll_ups.find_pending(before)
        if pending is None:
            return None
        combined = combine_samples(pending)
        return pending, add_to_chunks(combined, await rows.metric_roll_ups.read_chunks(combined))


async def roll_up_all(store: Store, before: int) -> None:
    while (prepared := await prepare(store, before)) is not None:
        async with store.transaction() as rows:
            await rows.metric_roll_ups.save(*prepared)


def total(points: Mapping[int, Point]) -> int:
    merged: Point = {}
    for point in points.values():
        merged = merge_points(merged, point)
    value = merged.get("rows_inserted", 0)
    assert isinstance(value, int)
    return value


async def test_samples_are_read_at_every_step_before_and_after_they_are_rolled_up(store: Store) -> None:
    for number in range(96):  # two hours
        await add(store, START + number * 75, {ONE: make_sample(number, number), OTHER: make_sample(1)})
    before = {step: await read(store, step, (ONE, OTHER)) for step in (15, 30, 60, 300, HOUR)}
    await roll_up_all(store, START + HOUR + 600)
    async with store.read() as rows:
        assert {group.step for group in await rows.metrics.list_sizes() if not group.is_pending} == {15, 60, HOUR}
    assert {step: await read(store, step, (ONE, OTHER)) for step in before} == before
    await roll_up_all(store, START + 3 * HOUR)
    assert {step: await read(store, step, (ONE, OTHER)) for step in before} == before
    assert len(before[15][ONE]) == 96
    assert before[HOUR][ONE][START] == {"rows_inserted": sum(range(48)), "memory_bytes": (sum(range(48)), 48, 47)}
    assert (await read(store, 60, ("ep-none",))) == {"ep-none": {}}


async def test_a_moment_is_sampled_once(store: Store) -> None:
    for value in (1, 2):
        await add(store, START, {ONE: make_sample(value)})
    assert total((await read(store, 15))[ONE]) == 1
    async with store.read() as rows:
        assert await rows.metrics.list_sampled_shards(START) == {shard_of(ONE)}


async def test_a_roll_up_happens_once_and_completely_or_not_at_all(store: Store) -> None:
    for number in range(8):
        await add(store, START + number * 15, {ONE: make_sample(1)})
    prepared = await prepare(store, START + HOUR)
    assert prepared is not None
    with pytest.raises(Crash):
        async with store.transaction() as rows:
            await rows.metric_roll_ups.save(*prepared)
            raise Crash
    assert total((await read(store, 60))[ONE]) == 8
    assert await prepare(store, START + HOUR) == prepared
    async with store.transaction() as rows:
        await rows.metric_roll_ups.save(*prepared)
    with pytest.raises(SamplesChanged):  # another process has the same samples
        async with store.transaction() as rows:
            await rows.metric_roll_ups.save(*prepared)
    assert total((await read(store, 60))[ONE]) == total((await read(store, HOUR))[ONE]) == 8


async def test_an_hour_that_has_not_ended_is_not_rolled_up(store: Store) -> None:
    await add(store, START + 15, {ONE: make_sample(1)})
    assert await prepare(store, START + HOUR - 1) is None


@pytest.mark.parametrize("seed", [1, 2])
async def test_sums_agree_whatever_the_order_the_clock_and_crashes(store: Store, seed: int) -> None:
    """Samples arrive at any moment of three hours, also in hours that were rolled up before."""
    rng, added = random.Random(seed), 0
    for _ in range(40):
        if rng.random() < 0.7:
            at = START + rng.randrange(3 * 240) * 15
            known = at in (await read(store, 15))[ONE]
            await add(store, at, {ONE: make_sample(value := rng.randrange(1000))})
            added += 0 if known else value
        elif (prepared := await prepare(store, START + rng.randrange(1, 4) * HOUR)) is not None:
            with suppress(Crash):
                async with store.transaction() as rows:
                    await rows.metric_roll_ups.save(*prepared)
                    if rng.random() < 0.5:
                        raise Crash
        for step in (15, 60, HOUR):
            assert total((await read(store, step))[ONE]) == added
    assert added


async def test_old_points_and_those_of_deleted_endpoints_are_deleted(store: Store) -> None:
    _, endpoint = await add_project(store, make_project())
    deleted = EndpointId.new()
    for hour in range(2):
        await add(
            store,
            START + hour * HOUR,
            {endpoint.id: make_sample(1), deleted: make_sample(1), MACHINE_SERIES: make_sample(1)},
        )
    await roll_up_all(store, START + HOUR)
    async with store.transaction() as rows:
        assert set(await rows.metrics.list_unused_series()) == {deleted}
        await rows.metrics.delete_series([deleted])
        assert await rows.metrics.list_unused_series() == []
        groups = await rows.metrics.list_sizes()
        assert {(each.step, each.is_pending, each.at) for each in groups} == {
            (15, False, START),
            (15, True, START + HOUR),
            (60, False, START),
            (HOUR, False, START),
        }
        assert all(each.bytes > 0 for each in groups)
        await rows.metrics.delete_before(15, START + 2 * HOUR)
        await rows.metrics.delete_before(60, START + 1)
        left = await rows.metrics.list_sizes()
        assert {(each.step, each.is_pending) for each in left} == {(15, True), (HOUR, False)}
        await rows.metrics.delete_before(15, START + 2 * HOUR, is_pending=True)
        await rows.metrics.delete_before(HOUR, START + 1)
        assert await rows.metrics.list_sizes() == []


async def test_the_last_counters_of_a_compute_are_kept(store: Store) -> None:
    moment = datetime(2027, 1, 1, tzinfo=UTC)
    first, second = EndpointId.new(), EndpointId.new()
    reading = CounterReading(
        volume_id="vol-a",
        at=moment,
        reset_at=moment,
        counts=dict.fromkeys(POSTGRES_COUNTERS, 2**60),
        wal_position=2**62,
    )
    replica = replace(reading, wal_position=None, reset_at=None)
    for readings in ({first: reading, second: replica}, {first: replica}, {}):
        async with store.transaction() as rows:
            await rows.metrics.save_counters(readings)
    async with store.read() as rows:
        assert await rows.metrics.list_counters([first, second]) == {first: replica, second: replica}
        assert await rows.metrics.list_counters([EndpointId.new()]) == {}
        assert set(await rows.metrics.list_unused_series()) == {first, second}
