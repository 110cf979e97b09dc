"""What of a branch's past is kept: as much as its window leads to, and no more."""

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
from domain.test_history import FIRST, RESTORED, SECOND, at, found, history, past


def kept(opens: float, *pasts: LineageRange) -> list[tuple[VolumeId, float]]:
    """Volume and minute since which it is wanted."""
    return [
        (each.lineage_range.lineage.volume_id, (each.since - at(0)) / timedelta(minutes=1))
        for each in select_retained(pasts, at(opens))
    ]


def test_a_branch_that_was_never_restored_is_wanted_as_far_as_its_window_goes() -> None:
    assert kept(40, past(FIRST)) == [(FIRST, 40)]
    assert kept(-40, past(FIRST)) == [(FIRST, -40)]
    assert select_expired([past(FIRST)], at(10_000)) == []


@pytest.mark.parametrize(
    ("opens", "expected"),
    [
        (5, [(FIRST, 5), (SECOND, 5)]),
        (15, [(FIRST, 9), (SECOND, 15)]),  # minutes that were taken away lead to the end of the first
        (29, [(FIRST, 9), (SECOND, 29)]),
        (30, [(SECOND, 30)]),
        (50, [(SECOND, 50)]),
    ],
)
def test_a_stretch_is_let_go_when_the_window_opens_after_the_next_began(
    opens: float, expected: list[tuple[VolumeId, float]]
) -> None:
    assert kept(opens, *RESTORED) == expected
    gone = [each.lineage.volume_id for each in select_expired(RESTORED, at(opens))]
    assert gone == ([] if len(expected) == 2 else [FIRST])


def test_what_a_branch_is_now_is_wanted_even_if_one_cannot_go_back_to_it_yet() -> None:
    first, second = RESTORED[0], past(SECOND, 1, began=None, from_at=at(30))
    assert kept(50, first, second) == [(FIRST, 9), (SECOND, 50)]


minutes = st.integers(0, 100)


@st.composite
def lives(draw: st.DrawFn) -> list[LineageRange]:
    """A branch that was restored some times, each time to a moment before, or given all of another's data."""
    begins = sorted(draw(st.lists(minutes, min_size=1, max_size=4, unique=True)))
    made: list[LineageRange] = []
    for position, begin in enumerate(begins):
        end = begins[position + 1] if position + 1 < len(begins) else None
        stretch: dict[str, Any] = {"from_at": at(begin)} if position else {}
        if end is not None:
            stretch |= {"until_at": at(draw(st.integers(begin, end))), "until_lsn": f"0/{position + 1}00"}
        began = draw(st.integers(begin, 100)) if draw(st.booleans()) else begin
        made.append(past(VolumeId(f"vol-{position}"), position, began=began, **stretch))
    return made


def leads_to(pasts: list[LineageRange], opens: int, moment: float) -> tuple[VolumeId, Point] | None:
    of = history(*pasts, retention=timedelta(minutes=100 - opens), now=100)
    try:
        target = found(of, Point(at=at(moment)))
    except Invalid:
        return None
    return target.volume_id, target.point


def moments(opens: int) -> Iterator[float]:
    for minute in range(opens, 101):
        yield minute
        yield min(100, minute + 0.5)


@given(lives(), minutes)
def test_every_moment_of_the_window_leads_where_it_did_and_is_wanted(pasts: list[LineageRange], opens: int) -> None:
    rest = pasts[len(select_expired(pasts, at(opens))) :]
    since = {each.lineage_range.lineage.volume_id: each for each in select_retained(pasts, at(opens))}
    assert [each.lineage_range for each in since.values()] == rest
    for moment in moments(opens):
        before = leads_to(pasts, opens, moment)
        assert leads_to(rest, opens, moment) == before
        if before is not None:
            volume, point = before
            until = since[volume].lineage_range.branch_lineage.until_at
            assert since[volume].since <= (point.at or until or at(100))
