"""The calendar month: where it starts and ends."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from bough.domain.calendar_month import start_of_month, start_of_next_month

moments = st.datetimes(datetime(2020, 1, 1), datetime(2099, 12, 1), timezones=st.just(UTC))


@given(moments)
def test_a_month_ends_where_the_next_begins(moment: datetime) -> None:
    first, last = start_of_month(moment), start_of_next_month(moment)
    assert first <= moment < last
    assert start_of_month(last) == last
    assert timedelta(days=28) <= last - first <= timedelta(days=31)
