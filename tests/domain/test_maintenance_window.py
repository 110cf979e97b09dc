"""The rules of maintenance windows, their next start, and defaults that are spread over quiet hours."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bough.domain.maintenance_window import RestartWindow, choose_default
from bough.errors import Invalid

MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))
DAYS = st.lists(st.integers(1, 7), min_size=1, max_size=10)
WINDOWS = st.builds(
    lambda days, start, length: RestartWindow(
        weekdays=tuple(sorted(set(days))), start_minute=start, end_minute=min(1440, start + length)
    ),
    DAYS,
    st.integers(0, 1380),
    st.integers(60, 1440),
)


@pytest.mark.parametrize(
    ("days", "start", "end", "message"),
    [
        ([], "01:00", "02:00", "at least one day"),
        ([0], "01:00", "02:00", "at least one day"),
        ([8], "01:00", "02:00", "at least one day"),
        ([1], "22:00", "03:00", "later on the same day"),
        ([1], "01:00", "01:00", "later on the same day"),
        ([1], "01:00", "01:59", "at least one hour"),
        ([1], "23:01", "00:00", "at least one hour"),
        ([1], "24:00", "02:00", "HH:MM"),
        ([1], "1:00", "02:00", "HH:MM"),
        ([1], "01:00", "02:00\n", "HH:MM"),
        ([1], "01:00", "0٢:00", "HH:MM"),
    ],
)
def test_what_breaks_a_rule_is_refused(days: list[int], start: str, end: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        RestartWindow.parse(days, start, end)


def test_midnight_as_the_end_is_the_end_of_the_day() -> None:
    window = RestartWindow.parse([7, 1, 7], "23:00", "00:00")
    assert window.weekdays == (1, 7)
    assert window.length == timedelta(hours=1)
    assert window.contains(datetime(2026, 11, 22, 23, 59, tzinfo=UTC))
    assert not window.contains(datetime(2026, 11, 23, 0, 0, tzinfo=UTC))
    assert window.to_settings() == {"weekdays": [1, 7], "start_time": "23:00", "end_time": "00:00"}
    assert RestartWindow.parse([1], "00:00", "00:00").length == timedelta(days=1)


@given(WINDOWS, MOMENTS)
def test_the_next_start_is_the_first_one(window: RestartWindow, moment: datetime) -> None:
    start = window.next_start(moment)
    assert moment <= start < moment + timedelta(days=7, minutes=1)
    assert start.isoweekday() in window.weekdays
    assert start.hour * 60 + start.minute == window.start_minute
    days = {(moment + timedelta(days=number)).isoweekday() for number in range(1, (start - moment).days)}
    assert not days & set(window.weekdays), "a day of the window lies before it"
    assert window.next_start(start) == start


@given(WINDOWS, MOMENTS)
def test_it_contains_what_lies_between_its_start_and_its_end(window: RestartWindow, moment: datetime) -> None:
    start = window.next_start(moment)
    assert window.contains(start)
    assert window.contains(start + window.length - timedelta(seconds=1))
    after = start + window.length
    assert not window.contains(after) or after.hour == after.minute == 0
    assert not window.contains(start - timedelta(seconds=1)) or window.start_minute == 0


@given(WINDOWS)
def test_its_settings_are_read_back(window: RestartWindow) -> None:
    assert RestartWindow.of_settings({"maintenance_window": window.to_settings()}) == window


@pytest.mark.parametrize("stored", [None, {}, {"weekdays": []}, {"weekdays": 1, "start_time": 3, "end_time": "04:00"}])
def test_what_earlier_versions_stored_and_is_invalid_is_no_window(stored: object) -> None:
    assert RestartWindow.of_settings({"maintenance_window": stored}) is None


@given(st.text(), DAYS, st.tuples(st.integers(0, 23), st.integers(1, 24)).filter(lambda hours: hours[0] < hours[1]))
def test_a_default_is_an_hour_in_the_quiet_hours(project: str, days: list[int], hours: tuple[int, int]) -> None:
    window = choose_default(project, days, hours)
    assert window == RestartWindow.of_settings({"maintenance_window": window.to_settings()})
    assert window.length == timedelta(hours=1)
    assert len(window.weekdays) == 1
    assert set(window.weekdays) <= set(days)
    assert hours[0] * 60 <= window.start_minute
    assert window.end_minute <= hours[1] * 60


def test_defaults_are_spread() -> None:
    counts = Counter(choose_default(f"project-{number}", range(1, 8), (0, 6)) for number in range(14_000))
    assert len(counts) == 7 * 21, "every day and every quarter of an hour"
    assert max(counts.values()) < 2 * 14_000 / len(counts)
