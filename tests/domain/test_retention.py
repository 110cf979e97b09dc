"""Which parts of the history of a branch its retention window needs."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bough.domain.history import LineageRange, Point
from bough.domain.retention import select_expired, select_retained
from bough.errors import Invalid
from bough.ids import VolumeId
from domain.test_history import FIRST, RESTORED, SECOND, at, make_history, make_range, resolve


def retained(earliest: float, *ranges: LineageRange) -> list[tuple[VolumeId, float]]:
    """Volumes and the minutes since when they are retained."""
    return [
        (each.lineage_range.lineage.volume_id, (each.since - at(0)) / timedelta(minutes=1))
        for each in select_retained(ranges, at(earliest))
    ]


def test_a_branch_that_was_never_restored_is_wanted_as_far_as_its_window_goes() -> None:
    assert retained(40, make_range(FIRST)) == [(FIRST, 40)]
    assert retained(-40, make_range(FIRST)) == [(FIRST, -40)]
    assert select_expired([make_range(FIRST)], at(10_000)) == []


@pytest.mark.parametrize(
    ("opens", "expected"),
    [
        (5, [(FIRST, 5), (SECOND, 5)]),
        (15, [(FIRST, 9), (SECOND, 15)]),  # discarded minutes mean the end of the first range
        (29, [(FIRST, 9), (SECOND, 29)]),
        (30, [(SECOND, 30)]),
        (50, [(SECOND, 50)]),
    ],
)
def test_a_range_is_dropped_when_the_window_opens_after_the_next_began(
    opens: float, expected: list[tuple[VolumeId, float]]
) -> None:
    assert retained(opens, *RESTORED) == expected
    gone = [each.lineage.volume_id for each in select_expired(RESTORED, at(opens))]
    assert gone == ([] if len(expected) == 2 else [FIRST])


def test_what_a_branch_is_now_is_wanted_even_if_one_cannot_go_back_to_it_yet() -> None:
    first, second = RESTORED[0], make_range(SECOND, 1, began=None, from_at=at(30))
    assert retained(50, first, second) == [(FIRST, 9), (SECOND, 50)]


minutes = st.integers(0, 100)


@st.composite
def histories(draw: st.DrawFn) -> list[LineageRange]:
    """A branch that was restored several times, to an earlier time or to the data of another branch."""
    starts = sorted(draw(st.lists(minutes, min_size=1, max_size=4, unique=True)))
    ranges: list[LineageRange] = []
    for position, start in enumerate(starts):
        end = starts[position + 1] if position + 1 < len(starts) else None
        part: dict[str, Any] = {"from_at": at(start)} if position else {}
        if end is not None:
            part |= {"until_at": at(draw(st.integers(start, end))), "until_lsn": f"0/{position + 1}00"}
        began = draw(st.integers(start, 100)) if draw(st.booleans()) else start
        ranges.append(make_range(VolumeId(f"vol-{position}"), position, began=began, **part))
    return ranges


def resolve_minute(ranges: list[LineageRange], earliest: int, minute: float) -> tuple[VolumeId, Point] | None:
    history = make_history(*ranges, retention=timedelta(minutes=100 - earliest), now=100)
    try:
        target = resolve(history, Point(at=at(minute)))
    except Invalid:
        return None
    return target.volume_id, target.point


def minutes_from(earliest: int) -> Iterator[float]:
    for minute in range(earliest, 101):
        yield minute
        yield min(100, minute + 0.5)


@given(histories(), minutes)
def test_every_moment_of_the_window_leads_where_it_did_and_is_wanted(ranges: list[LineageRange], opens: int) -> None:
    rest = ranges[len(select_expired(ranges, at(opens))) :]
    since = {each.lineage_range.lineage.volume_id: each for each in select_retained(ranges, at(opens))}
    assert [each.lineage_range for each in since.values()] == rest
    for minute in minutes_from(opens):
        before = resolve_minute(ranges, opens, minute)
        assert resolve_minute(rest, opens, minute) == before
        if before is not None:
            volume, point = before
            until = since[volume].lineage_range.branch_lineage.until_at
            assert since[volume].since <= (point.at or until or at(100))
