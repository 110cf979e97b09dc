"""What a plan must have room for, and how long an offer may stand."""

import pytest

from bough.domain.transfer import LONGEST_SECONDS, Room, check_seconds, shortfalls
from bough.errors import Invalid

ALLOWED = Room(projects=3, branches=10, history_seconds=3600)


def test_what_is_just_allowed_fits() -> None:
    assert list(shortfalls(needed=ALLOWED, allowed=ALLOWED)) == []


def test_each_limit_that_would_be_exceeded_is_named() -> None:
    needed = Room(projects=4, branches=10, history_seconds=3601)
    first, second = shortfalls(needed=needed, allowed=ALLOWED)
    assert (first.name, first.code, first.limit, first.wanted) == ("projects", "PROJECTS_LIMIT_EXCEEDED", 3, 4)
    assert (second.name, second.limit, second.wanted) == ("history_retention_seconds", 3600, 3601)
    assert "3601" in second.sentence
    (third,) = shortfalls(needed=Room(projects=0, branches=11, history_seconds=0), allowed=ALLOWED)
    assert (third.name, third.code) == ("branches_per_project", "BRANCHES_LIMIT_EXCEEDED")


@pytest.mark.parametrize(
    ("seconds", "fits"), [(1, True), (LONGEST_SECONDS, True), (0, False), (LONGEST_SECONDS + 1, False)]
)
def test_an_offer_stands_for_a_second_to_thirty_days(seconds: int, fits: bool) -> None:
    if fits:
        check_seconds(seconds)
    else:
        with pytest.raises(Invalid):
            check_seconds(seconds)
