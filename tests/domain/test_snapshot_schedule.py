"""Snapshot schedules: run times, due snapshots, and invalid schedules."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bough.domain import snapshot_schedule
from bough.domain.snapshot_schedule import Frequency, ScheduleItem
from bough.errors import Invalid

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def item(frequency: str, hour: int | None = None, day: int | None = None, **fields: Any) -> ScheduleItem:
    return ScheduleItem(frequency=Frequency(frequency), hour=hour, day=day, **fields)


@pytest.mark.parametrize(
    ("which", "now", "newest", "following"),
    [
        (item("hourly"), "2026-11-17 05:59:59", "2026-11-17 05:00", "2026-11-17 06:00"),
        (item("hourly"), "2026-11-17 05:00", "2026-11-17 05:00", "2026-11-17 06:00"),
        (item("hourly", 3), "2026-12-31 23:30", "2026-12-31 23:00", "2027-01-01 00:00"),
        (item("daily", 5), "2026-11-17 05:00", "2026-11-17 05:00", "2026-11-18 05:00"),
        (item("daily", 5), "2026-11-17 04:59", "2026-11-16 05:00", "2026-11-17 05:00"),
        (item("weekly", 5, 1), "2026-11-17 12:00", "2026-11-16 05:00", "2026-11-23 05:00"),  # a Tuesday
        (item("weekly", 5, 2), "2026-11-17 04:00", "2026-11-10 05:00", "2026-11-17 05:00"),
        (item("weekly", 5, 7), "2026-11-22 05:00", "2026-11-22 05:00", "2026-11-29 05:00"),
        (item("monthly", 0, 1), "2026-11-17 00:00", "2026-11-01 00:00", "2026-12-01 00:00"),
        (item("monthly", 23, 31), "2026-03-01 00:00", "2026-02-28 23:00", "2026-03-31 23:00"),
        (item("monthly", 23, 30), "2028-02-29 23:30", "2028-02-29 23:00", "2028-03-30 23:00"),
        (item("monthly", 6, 31), "2027-01-01 00:00", "2026-12-31 06:00", "2027-01-31 06:00"),
    ],
)
def test_the_moments_of_an_item(which: ScheduleItem, now: str, newest: str, following: str) -> None:
    assert snapshot_schedule.last_run_at(which, at(now)) == at(newest)
    assert snapshot_schedule.next_run_at(which, at(now)) == at(following)


ITEMS = st.one_of(
    st.builds(item, st.just("hourly")),
    st.builds(item, st.just("daily"), st.integers(0, 23)),
    st.builds(item, st.just("weekly"), st.integers(0, 23), st.integers(1, 7)),
    st.builds(item, st.just("monthly"), st.integers(0, 23), st.integers(1, 31)),
)
NOW = st.datetimes(datetime(2026, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))


@given(ITEMS, NOW)
def test_moments_stand_in_a_row_without_gaps(which: ScheduleItem, now: datetime) -> None:
    newest, following = snapshot_schedule.last_run_at(which, now), snapshot_schedule.next_run_at(which, now)
    assert newest <= now < following
    assert snapshot_schedule.next_run_at(which, newest) == following
    assert snapshot_schedule.last_run_at(which, following) == following
    assert following - newest <= 31 * DAY


@given(st.lists(ITEMS, min_size=1, max_size=5), NOW, st.timedeltas(timedelta(), 100 * DAY))
def test_whoever_comes_late_or_often_takes_each_moment_at_most_once(
    items: list[ScheduleItem], now: datetime, away: timedelta
) -> None:
    next_at = snapshot_schedule.next_run_of_all(items, now)
    assert next_at is not None
    assert snapshot_schedule.list_due(items, next_at, now) == []
    late = snapshot_schedule.list_due(items, next_at, now + away)
    assert len(late) <= len(items)
    assert all(next_at <= slot.at <= now + away for slot in late)
    assert bool(late) == (next_at <= now + away)
    after = snapshot_schedule.next_run_of_all(items, now + away)
    assert after is not None
    assert snapshot_schedule.list_due(items, after, now + away) == []


def test_after_downtime_each_item_is_made_up_for_once() -> None:
    items = [item("hourly"), item("daily", 5), item("weekly", 5, 1)]
    since = at("2026-11-10 03:00")
    due = snapshot_schedule.list_due(items, since, at("2026-11-17 05:30"))
    assert [(slot.frequency, slot.at) for slot in due] == [
        ("weekly", at("2026-11-16 05:00")),
        ("hourly", at("2026-11-17 05:00")),
        ("daily", at("2026-11-17 05:00")),
    ]
    assert [slot.name("main") for slot in due][-1] == "main daily 2026-11-17 05:00"


def test_two_items_with_one_moment_take_one_snapshot_and_keep_it_longer() -> None:
    items = [item("monthly", 5, 30, retention_seconds=3600), item("monthly", 5, 31, retention_seconds=7200)]
    (slot,) = snapshot_schedule.list_due(items, at("2026-02-01 00:00"), at("2026-02-28 06:00"))
    assert slot.retention == 2 * HOUR
    (slot,) = snapshot_schedule.list_due(
        [items[0], item("monthly", 5, 31)], at("2026-02-01 00:00"), at("2026-02-28 06:00")
    )
    assert slot.retention is None, "for ever is longest"


@pytest.mark.parametrize(
    ("items", "sentence"),
    [
        ([item("daily")], r"schedule\[0\].hour is missing: a daily snapshot needs one"),
        ([item("hourly"), item("weekly", 5)], r"schedule\[1\].day: a weekly snapshot needs one, from 1 to 7"),
        ([item("weekly", 5, 8)], "from 1 to 7"),
        ([item("monthly", 5)], r"schedule\[0\].day: a monthly snapshot needs one, from 1 to 31"),
        ([item("hourly", retention_seconds=3599)], "retention_seconds is 3599: use 3600"),
        ([item("hourly", retention_seconds=3_024_001)], "retention_seconds is 3024001"),
        ([item("daily", 5), item("daily", 5, retention_seconds=3600)], "two items run at the same times"),
        ([item("hourly", 1), item("hourly", 2)], "two items run at the same times"),
    ],
)
def test_what_cannot_be_asked_for(items: list[ScheduleItem], sentence: str) -> None:
    with pytest.raises(Invalid, match=sentence):
        snapshot_schedule.check_schedule(items)


def test_what_can_be_asked_for() -> None:
    whole = [item("hourly"), item("daily", 0), item("daily", 5, 3), item("weekly", 5, 7), item("monthly", 23, 31)]
    snapshot_schedule.check_schedule(whole)
    snapshot_schedule.check_schedule([])
    assert snapshot_schedule.decode_items(snapshot_schedule.encode_items(whole)) == tuple(whole)
    assert snapshot_schedule.next_run_of_all([], at("2026-01-01 00:00")) is None


def test_how_many_are_held() -> None:
    assert snapshot_schedule.count_retained([item("hourly", retention_seconds=7200)]) == 2
    assert snapshot_schedule.count_retained([item("daily", 5), item("monthly", 5, 1, retention_seconds=3_024_000)]) == 3
