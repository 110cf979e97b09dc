"""Plan limits for transferred projects, and the lifetime of a transfer request."""

import pytest

from bough.domain.project_transfer import MAX_TTL_SECONDS, TransferQuota, check_ttl, find_exceeded_limits
from bough.errors import Invalid

ALLOWED = TransferQuota(projects=3, branches=10, history_seconds=3600)


def test_what_is_just_allowed_fits() -> None:
    assert list(find_exceeded_limits(required=ALLOWED, allowed=ALLOWED)) == []


def test_each_limit_that_would_be_exceeded_is_named() -> None:
    needed = TransferQuota(projects=4, branches=10, history_seconds=3601)
    first, second = find_exceeded_limits(required=needed, allowed=ALLOWED)
    assert (first.name, first.code, first.limit, first.required) == ("projects", "PROJECTS_LIMIT_EXCEEDED", 3, 4)
    assert (second.name, second.limit, second.required) == ("history_retention_seconds", 3600, 3601)
    assert "3601" in second.message
    (third,) = find_exceeded_limits(required=TransferQuota(projects=0, branches=11, history_seconds=0), allowed=ALLOWED)
    assert (third.name, third.code) == ("branches_per_project", "BRANCHES_LIMIT_EXCEEDED")


@pytest.mark.parametrize(
    ("seconds", "fits"), [(1, True), (MAX_TTL_SECONDS, True), (0, False), (MAX_TTL_SECONDS + 1, False)]
)
def test_an_offer_stands_for_a_second_to_thirty_days(seconds: int, fits: bool) -> None:
    if fits:
        check_ttl(seconds)
    else:
        with pytest.raises(Invalid):
            check_ttl(seconds)
