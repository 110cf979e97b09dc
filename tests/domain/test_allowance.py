"""Storage and traffic limits: when a branch is full and released again, and which month counts."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bough.byte_sizes import format_in_largest_unit
from bough.domain import allowance
from bough.domain.allowance import Fullness, classify_fullness
from bough.ids import ProjectId

ROOM, FULL, OVERFULL = Fullness
PROJECT = ProjectId.new()
MAY = datetime(2026, 5, 1, tzinfo=UTC)
DAY = timedelta(days=1)
sizes = st.integers(0, 2**60)


@pytest.mark.parametrize(
    ("now", "stored", "expected"),
    [
        (ROOM, 1000, ROOM),
        (ROOM, 1001, FULL),
        (ROOM, 1200, FULL),
        (ROOM, 1201, OVERFULL),
        (FULL, 1000, FULL),
        (FULL, 951, FULL),
        (FULL, 950, ROOM),
        (FULL, 1201, OVERFULL),
        (OVERFULL, 1201, OVERFULL),
        (OVERFULL, 1200, FULL),
        (OVERFULL, 1000, ROOM),
    ],
)
def test_a_branch_is_full_above_its_limit_until_it_is_clearly_below(
    now: Fullness, stored: int, expected: Fullness
) -> None:
    assert classify_fullness(now, stored, 1000) is expected


@given(st.sampled_from(Fullness), sizes, sizes)
def test_a_second_look_at_the_same_changes_nothing(now: Fullness, stored: int, limit: int) -> None:
    seen = classify_fullness(now, stored, limit)
    assert classify_fullness(seen, stored, limit) is seen


@given(sizes, sizes, st.integers(0, 2**50))
def test_what_wavers_within_a_twentieth_of_the_limit_does_not_flap(stored: int, limit: int, less: int) -> None:
    if (
        classify_fullness(ROOM, stored, limit) is FULL
        and less <= limit // 20
        and stored - less > limit * allowance.RELEASE_FACTOR
    ):
        assert classify_fullness(FULL, stored - less, limit) is FULL


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (1, "1 bytes"),
        (1536, "1.5 kB"),
        (100 * 1024**2, "100 MB"),
        (512 * 1024**2, "512 MB"),
        (5 * 1024**3, "5 GB"),
        (16 * 1024**4, "16 TB"),
        (2**70, "1.04858e+06 PB"),
    ],
)
def test_sizes_are_told_in_words(size: int, words: str) -> None:
    assert format_in_largest_unit(size) == words
