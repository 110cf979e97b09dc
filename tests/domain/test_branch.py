"""Legal changes of a branch: states, expiration, deletion."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from bough.domain import branch as branches
from bough.domain.branch import MAX_LIFETIME, TRANSITIONS, Branch, BranchState
from bough.errors import Invalid, RuleViolation
from bough.ids import BranchId
from support.stores import NOON, make_branch, make_project

SECOND = timedelta(seconds=1)
PARENT = BranchId("br-parent")


def _child(**changes: Any) -> Branch:
    return make_branch(make_project(), **{"parent_id": PARENT, "is_default": False, "name": "dev", **changes})


def test_a_branch_becomes_ready_once() -> None:
    ready = branches.transition_branch(_child(), BranchState.READY, NOON + SECOND)
    assert (ready.state, ready.state_changed_at, ready.updated_at) == (BranchState.READY, *[NOON + SECOND] * 2)
    assert branches.transition_branch(ready, BranchState.READY, NOON + 2 * SECOND) is ready
    with pytest.raises(ValueError, match="cannot move from ready to init"):
        branches.transition_branch(ready, BranchState.INIT, NOON)
    assert set(TRANSITIONS) == set(BranchState)


@pytest.mark.parametrize("span", [SECOND, timedelta(days=1), MAX_LIFETIME])
def test_an_end_within_thirty_days_is_kept_in_utc(span: timedelta) -> None:
    at = (NOON + span).astimezone(timezone(timedelta(hours=-8)))
    expiring = branches.set_expiration(_child(), at, NOON)
    assert (expiring.expires_at, expiring.ttl_seconds) == (at, round(span.total_seconds()))
    assert expiring.expires_at is not None
    assert expiring.expires_at.tzinfo is UTC
    cleared = branches.set_expiration(expiring, None, NOON)
    assert (cleared.expires_at, cleared.ttl_seconds) == (None, None)


@pytest.mark.parametrize(
    ("at", "sentence"),
    [
        (NOON, "is in the past; use a time within the next 30 days"),
        (NOON - SECOND, "is in the past"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), "is in the past"),
        (NOON + MAX_LIFETIME + SECOND, "is more than 30 days away; use a time within the next 30 days"),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))), "is more than 30 days away"),
    ],
)
def test_an_end_outside_of_them_is_refused(at: datetime, sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        branches.set_expiration(_child(), at, NOON)
    assert sentence in refused.value.public_message


KEPT: list[tuple[dict[str, Any], bool, str]] = [
    ({"is_protected": True}, False, "it is protected. Unprotect it first."),
    ({"is_default": True}, False, "it is the default branch. Make another branch the default first."),
    ({"parent_id": None}, False, "it is the project's root branch. Delete the project instead."),
    ({}, True, "it has child branches. Delete those first."),
    ({"parent_id": None, "is_default": True, "is_protected": True}, True, "it is protected. Unprotect it first."),
]


@pytest.mark.parametrize(("changes", "has_children", "reason"), KEPT)
def test_what_must_stay_is_neither_deleted_nor_expires(
    changes: dict[str, Any], has_children: bool, reason: str
) -> None:
    branch = _child(**changes)
    with pytest.raises(RuleViolation) as refused:
        branches.check_deletable(branch, has_children=has_children)
    assert refused.value.public_message == f"The branch 'dev' cannot be deleted: {reason}"
    branches.check_can_expire(branch, has_children=has_children)  # without expires_at every branch passes
    with pytest.raises(RuleViolation) as refused:
        branches.check_can_expire(replace(branch, expires_at=NOON), has_children=has_children)
    assert refused.value.public_message == f"The branch 'dev' cannot have expires_at: {reason}"


def test_any_other_may_be_deleted_and_may_expire() -> None:
    branch = _child(expires_at=NOON)
    branches.check_deletable(branch, has_children=False)
    branches.check_can_expire(branch, has_children=False)


def test_one_that_expires_has_no_children() -> None:
    branches.check_can_have_children(_child(is_protected=True))
    with pytest.raises(
        RuleViolation, match=r"expires at 2026-01-01T12:00:00\+00:00, so no branch .* Clear its expires_at"
    ):
        branches.check_can_have_children(_child(expires_at=NOON))
