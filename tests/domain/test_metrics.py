"""Metrics over time: exact sums at every step, counters that are set back, ranges, and what goes first."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bough.domain.metrics.budget import Deletion, StoredGroup, plan_deletions
from bough.domain.metrics.compute_values import connection_values, cpu_values, lag_values
from bough.domain.metrics.counters import CounterReading, count_since
from bough.domain.metrics.fields import COMPUTE_FIELDS, POSTGRES_COUNTERS
from bough.domain.metrics.points import GaugeCell, Point, make_point, merge_points, roll_up
from bough.domain.metrics.series import Aggregation, build_series
from bough.domain.metrics.tiers import (
    DAY,
    DEFAULT_POINTS,
    HOUR,
    MAX_POINTS,
    InvalidRange,
    MetricRange,
    choose_range,
)
from bough.domain.pooler import PoolStats

NOW = 1_800_000_000.0
MOMENT = datetime(2027, 1, 15, 8, tzinfo=UTC)
VALUES = {"rows_inserted": 5, "memory_bytes": 7_000, "cpu_cores": 0.25}

moments = st.integers(min_value=0, max_value=3 * HOUR // 15 - 1).map(lambda number: number * 15)
samples = st.fixed_dictionaries(
    {},
    optional={
        "rows_inserted": st.integers(0, 2**62),
        "memory_bytes": st.builds(lambda value: GaugeCell(value, 1, value), st.integers(0, 2**50)),
    },
)


def make_reading(value: int = 0, seconds: float = 0, **changes: object) -> CounterReading:
    fields: dict[str, object] = {
        "volume_id": "vol-a",
        "at": MOMENT + timedelta(seconds=seconds),
        "reset_at": MOMENT - timedelta(days=3),
        "counts": dict.fromkeys(POSTGRES_COUNTERS, value),
        "wal_position": value,
    }
    return CounterReading(**{**fields, **changes})  # type: ignore[arg-type]


def sum_inserted(points: list[Point]) -> int:
    return sum(cell for point in points if isinstance(cell := point.get("rows_inserted"), int))


@given(st.lists(st.tuples(moments, samples)), st.data())
def test_rolling_up_is_exact_in_any_order_and_in_any_batches(
    points: list[tuple[int, Point]], data: st.DataObject
) -> None:
    at_once = roll_up(points, HOUR)
    shuffled = data.draw(st.permutations(points))
    cut = data.draw(st.integers(0, len(points)))
    minutes: dict[int, Point] = {}
    for batch in (shuffled[:cut], shuffled[cut:]):
        for at, point in roll_up(batch, 60).items():
            minutes[at] = merge_points(minutes.get(at, {}), point)
    assert roll_up(minutes.items(), HOUR) == at_once
    assert sum_inserted(list(at_once.values())) == sum_inserted([point for _, point in points])


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(POSTGRES_COUNTERS), st.integers(0, 2**63 - 1)),
            st.integers(0, 3),
            st.sampled_from(["vol-a", "vol-b"]),
            st.none() | st.integers(0, 2**63 - 1),
            st.integers(-(10**6), 10**6),
        ),
        min_size=2,
    )
)
def test_no_reading_leads_to_a_negative_or_absurd_value(
    readings: list[tuple[Mapping[str, int], int, str, int | None, int]],
) -> None:
    before: CounterReading | None = None
    limits = {field.name: field.limit for field in COMPUTE_FIELDS}
    for counts, reset, volume, wal, seconds in readings:
        reset_at = MOMENT + timedelta(days=reset)
        now = make_reading(seconds=seconds, counts=counts, volume_id=volume, reset_at=reset_at, wal_position=wal)
        elapsed = 120.0 if before is None else max(120.0, (now.at - before.at).total_seconds())
        for name, value in count_since(before, now).items():
            assert 0 <= value <= limits[name] * elapsed
        before = now


def test_what_was_counted_is_the_difference() -> None:
    counted = count_since(make_reading(100), make_reading(130, 15))
    assert counted == dict.fromkeys((*POSTGRES_COUNTERS, "wal_bytes"), 30)


def test_after_a_crash_everything_was_counted_since() -> None:
    crashed = make_reading(7, 15, reset_at=MOMENT + timedelta(seconds=5), wal_position=140)
    assert count_since(make_reading(100), crashed) == {**dict.fromkeys(POSTGRES_COUNTERS, 7), "wal_bytes": 40}


def test_a_dropped_database_takes_nothing_away() -> None:
    assert count_since(make_reading(100), make_reading(90, 15))["rows_inserted"] == 0


def test_a_new_compute_is_counted_from_the_start_and_an_old_one_is_unknown() -> None:
    new = make_reading(9, reset_at=MOMENT - timedelta(seconds=30))
    assert count_since(None, new) == dict.fromkeys(POSTGRES_COUNTERS, 9)
    assert count_since(None, make_reading(9)) == {}
    assert count_since(None, make_reading(9, reset_at=None)) == {}


def test_a_restored_branch_has_nothing_to_do_with_the_volume_before() -> None:
    assert count_since(make_reading(100), make_reading(10**9, 15, volume_id="vol-b")) == {}


def test_a_read_replica_writes_no_wal() -> None:
    assert "wal_bytes" not in count_since(make_reading(1, wal_position=None), make_reading(2, 15, wal_position=None))


def test_a_reading_is_stored_completely() -> None:
    for reading in (make_reading(5), make_reading(5, reset_at=None, wal_position=None)):
        assert CounterReading.from_stored(reading.to_stored()) == reading


def test_values_without_sense_are_left_out() -> None:
    values = {"memory_bytes": 2**61, "connections_direct": -1, "rows_inserted": 3, "storage_bytes": None}
    assert make_point(COMPUTE_FIELDS, values) == {"rows_inserted": 3}


def test_a_counter_is_never_combined_with_a_gauge() -> None:
    with pytest.raises(TypeError, match="combined"):
        merge_points({"cpu_seconds": 1}, {"cpu_seconds": GaugeCell(1, 1, 1)})


def test_pooled_clients_are_not_direct_ones() -> None:
    pool = PoolStats(clients_active=1, clients_waiting=2, clients_idle=3, servers_active=4, servers_idle=5)
    expected = {"connections_direct": 4, "connections_pooled": 6, "connections_of_pools": 9}
    assert connection_values(10, pool) == expected
    assert connection_values(2, None) == {"connections_direct": 2, "connections_pooled": 0, "connections_of_pools": 0}
    assert connection_values(1, pool)["connections_direct"] == 0  # the worker reports the two at different times


def test_cpu_time_and_lag() -> None:
    assert cpu_values(2.0, 5.0, 12.0) == {"cpu_seconds": 3.0, "cpu_cores": 0.25}
    assert cpu_values(5.0, 2.0, 12.0) == {"cpu_seconds": 0.0, "cpu_cores": 0.0}
    assert lag_values(None, 5, 1.0) == lag_values(5, None, 1.0) == {}
    assert lag_values(5, 5, 60.0) == lag_values(4, 5, 60.0) == {"replica_lag_bytes": 0, "replica_lag_seconds": 0.0}
    assert lag_values(9, 5, 2.5) == {"replica_lag_bytes": 4, "replica_lag_seconds": 2.5}
    assert lag_values(9, 5, None) == {"replica_lag_bytes": 4}


def test_a_series_has_a_value_for_each_step_and_none_in_gaps() -> None:
    fields = [field for field in COMPUTE_FIELDS if field.name in VALUES]
    one, other = make_point(fields, VALUES), make_point(fields, {**VALUES, "memory_bytes": 9_000, "cpu_cores": 0.5})
    wanted = MetricRange(start=0, end=180, step=60)
    found = {
        (each.name, each.aggregation): each.values
        for each in build_series(fields, wanted, [{0: merge_points(one, other), 120: one}, {120: other}])
    }
    assert found == {
        ("cpu_cores", Aggregation.AVERAGE): (0.375, None, 0.75),
        ("cpu_cores", Aggregation.MAXIMUM): (0.5, None, 0.75),
        ("memory_bytes", Aggregation.AVERAGE): (8_000, None, 16_000),
        ("memory_bytes", Aggregation.MAXIMUM): (9_000, None, 16_000),
        ("rows_inserted", Aggregation.SUM): (10, None, 10),
    }


def test_computes_of_a_branch_share_its_storage() -> None:
    fields = [field for field in COMPUTE_FIELDS if field.name == "storage_bytes"]
    wanted = MetricRange(start=0, end=60, step=60)
    [series] = build_series(fields, wanted, [{0: make_point(fields, {"storage_bytes": size})} for size in (5, 7)])
    assert (series.aggregation, series.values) == (Aggregation.MAXIMUM, (7,))


@pytest.mark.parametrize(
    ("seconds_ago", "length", "step", "resolution"),
    [
        (HOUR, HOUR, 15, 15),
        (2 * HOUR, 2 * HOUR, 60, 60),
        (2 * HOUR, 600, 60, 60),
        (DAY, DAY, 300, 60),
        (2 * DAY, 2 * DAY, 600, 60),
        (7 * DAY, 7 * DAY, HOUR, HOUR),
        (30 * DAY, 30 * DAY, 3 * HOUR, HOUR),
    ],
)
def test_the_default_step_fits_the_range(seconds_ago: int, length: int, step: int, resolution: int) -> None:
    chosen = choose_range(NOW - seconds_ago, NOW - seconds_ago + length, None, NOW)
    assert (chosen.step, chosen.tier.step) == (step, resolution)
    assert len(chosen.starts) <= DEFAULT_POINTS + 1


@given(st.floats(0, 2e9), st.floats(0, 2e9), st.none() | st.integers(1, 10**7))
def test_every_range_is_covered_by_whole_steps_or_refused(start: float, end: float, step: int | None) -> None:
    try:
        chosen = choose_range(start, end, step, NOW)
    except InvalidRange as error:
        assert str(error)
        return
    assert chosen.start <= start < min(end, NOW) <= chosen.end
    assert chosen.start % chosen.step == chosen.end % chosen.step == 0
    assert 0 < len(chosen.starts) <= MAX_POINTS
    assert chosen.step % chosen.tier.step == 0


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [(10, 10, None), (20, 10, None), (NOW + 1, NOW + 9, None), (-1, 9, None), (NOW - 900, NOW, 20), (0, NOW, None)],
)
def test_impossible_ranges_are_refused(start: float, end: float, step: int | None) -> None:
    with pytest.raises(InvalidRange):
        choose_range(start, end, step, NOW)


def test_the_finest_and_oldest_go_first_and_what_is_not_rolled_up_last() -> None:
    groups = [
        StoredGroup(step=step, is_pending=pending, at=at, bytes=10)
        for step, pending in ((15, False), (15, True), (60, False), (3600, False))
        for at in (0, 3600)
    ]
    assert plan_deletions(groups, 80) == []
    first = Deletion(step=15, is_pending=False, before=1)
    assert plan_deletions(groups, 79) == plan_deletions(groups, 70) == [first]
    all_samples = Deletion(step=15, is_pending=False, before=3601)
    assert plan_deletions(groups, 50) == [all_samples, Deletion(step=60, is_pending=False, before=1)]
    assert plan_deletions(groups, 0)[-1] == Deletion(step=15, is_pending=True, before=3601)
