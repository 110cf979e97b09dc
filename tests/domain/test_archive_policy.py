"""Which branches are archived automatically."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bough.domain.archive_policy import ArchivePolicy, last_used_at, should_archive
from bough.domain.branch import BranchState
from bough.domain.endpoint import EndpointState
from support.stores import NOON, make_branch, make_endpoint, make_project

POLICY = ArchivePolicy(min_age=timedelta(days=14), min_idle=timedelta(hours=24))
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOW = NOON + 14 * DAY
BRANCH = make_branch(make_project(), is_default=False, state=BranchState.READY)
IDLE = make_endpoint(BRANCH, state=EndpointState.IDLE, pending_state=None)


def is_due(branch: Any = BRANCH, *endpoints: Any, now: Any = NOW, has_unarchived_children: bool = False) -> bool:
    return should_archive(branch, endpoints, POLICY, now, has_unarchived_children=has_unarchived_children)


def test_an_old_branch_that_nobody_used_is_due_and_not_a_moment_earlier() -> None:
    assert is_due()
    assert is_due(BRANCH, IDLE)
    assert not is_due(now=NOW - timedelta(seconds=1))


@pytest.mark.parametrize(
    "fields",
    [
        {"is_default": True},
        {"is_protected": True},
        {"deleted_at": NOON},
        {"state": BranchState.INIT},
        {"state": BranchState.ARCHIVED},
        {"last_reset_at": NOW - HOUR},
        {"state_changed_at": NOW - HOUR},  # it was unarchived then
    ],
    ids=str,
)
def test_one_that_must_stay_or_was_used_is_not_due(fields: dict[str, Any]) -> None:
    assert not is_due(replace(BRANCH, **fields))


def test_one_whose_children_are_there_is_not_due() -> None:
    assert not is_due(has_unarchived_children=True)


@pytest.mark.parametrize(
    "fields",
    [
        {"state": EndpointState.ACTIVE},
        {"pending_state": EndpointState.ACTIVE},
        {"last_active": NOW - HOUR},
        {"started_at": NOW - HOUR},
        {"suspended_at": NOW - HOUR},
        {"created_at": NOW - HOUR},
        {"suspended_at": NOW - HOUR, "deleted_at": NOW - HOUR},
    ],
    ids=str,
)
def test_one_that_an_endpoint_uses_or_used_is_not_due(fields: dict[str, Any]) -> None:
    assert not is_due(BRANCH, IDLE, replace(IDLE, **fields))


def test_a_deleted_endpoint_does_not_run_whatever_its_row_says() -> None:
    assert is_due(BRANCH, replace(IDLE, state=EndpointState.ACTIVE, deleted_at=NOON + DAY))


def test_the_latest_use_counts() -> None:
    used = replace(IDLE, last_active=NOON + 3 * DAY, started_at=NOON + 2 * DAY, suspended_at=NOON + 4 * DAY)
    assert last_used_at(BRANCH, [used, IDLE]) == NOON + 4 * DAY
    assert last_used_at(replace(BRANCH, last_reset_at=NOON + 5 * DAY), [used]) == NOON + 5 * DAY
    assert last_used_at(BRANCH, []) == NOON
