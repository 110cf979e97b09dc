"""Quotas: which one is reached, what is worth a warning, and what plans add."""

import pytest

from bough.domain import quota
from bough.domain.quota import Limit, PeriodUsage

GB = 1024**3
USAGE = PeriodUsage(active_seconds=3600.0, compute_seconds=900.0, written_bytes=GB, bytes_out=2 * GB)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, None),
        ({"quota": {}}, None),
        ({"quota": {"active_time_seconds": 3600}}, Limit.ACTIVE_TIME),
        ({"quota": {"active_time_seconds": 3601}}, None),
        ({"quota": {"active_time_seconds": 0, "compute_time_seconds": 1}}, Limit.COMPUTE_TIME),
        ({"quota": {"written_data_bytes": GB}}, Limit.WRITTEN_DATA),
        ({"quota": {"data_transfer_bytes": 2 * GB}}, Limit.DATA_TRANSFER),
        ({"quota": {"logical_size_bytes": 1}}, None),  # limits branches
        ({"quota": {"data_transfer_bytes": 1, "active_time_seconds": 1}}, Limit.ACTIVE_TIME),
    ],
)
def test_a_limit_is_reached_when_as_much_is_used(settings: dict[str, dict[str, int]], expected: Limit | None) -> None:
    limits = quota.build_limits(settings, {}, 5 * GB)
    assert quota.find_reached(limits, USAGE) is expected


def test_the_limit_of_the_plan_comes_last() -> None:
    assert quota.find_reached(quota.build_limits({}, {}, 2 * GB), USAGE) is Limit.PLAN_TRANSFER
    both = quota.build_limits({"quota": {"data_transfer_bytes": GB}}, {}, GB)
    assert quota.find_reached(both, USAGE) is Limit.DATA_TRANSFER


def test_a_plan_has_quotas_for_projects_without_one_of_their_own() -> None:
    of_plan = {"active_time_seconds": 3600, "written_data_bytes": 0}
    assert quota.find_reached(quota.build_limits({}, of_plan, 5 * GB), USAGE) is Limit.ACTIVE_TIME
    own = {"quota": {"active_time_seconds": 0}}
    assert quota.find_reached(quota.build_limits(own, of_plan, 5 * GB), USAGE) is None


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        (79.9, {}),
        (80.0, {Limit.ACTIVE_TIME: 80}),
        (99.0, {Limit.ACTIVE_TIME: 80}),
        (100.0, {Limit.ACTIVE_TIME: 100}),
        (500.0, {Limit.ACTIVE_TIME: 100}),
    ],
)
def test_four_fifths_are_worth_a_warning(used: float, expected: dict[Limit, int]) -> None:
    assert quota.find_warnings({Limit.ACTIVE_TIME: 100}, PeriodUsage(active_seconds=used)) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (GB, False)),
        ({"quota": {"logical_size_bytes": 0}}, (GB, False)),
        ({"quota": {"logical_size_bytes": 5}}, (5, True)),
        ({"quota": {"logical_size_bytes": 2 * GB}}, (GB, False)),
    ],
)
def test_the_smaller_of_plan_and_quota_limits_a_branch(
    settings: dict[str, dict[str, int]], expected: tuple[int, bool]
) -> None:
    assert quota.storage_limit(settings, {}, GB) == expected


def test_messages_contain_what_clients_search_for() -> None:
    nouns = [limit.noun for limit in quota.QUOTA_LIMITS] + [quota.LOGICAL_SIZE_NOUN]
    assert nouns == [
        "active time quota",
        "compute time quota",
        "written data quota",
        "data transfer quota",
        "logical size quota",
    ]
    assert {limit.code for limit in Limit} == {
        "ACTIVE_TIME_QUOTA_EXCEEDED",
        "COMPUTE_TIME_QUOTA_EXCEEDED",
        "WRITTEN_DATA_QUOTA_EXCEEDED",
        "DATA_TRANSFER_QUOTA_EXCEEDED",
        "DATA_TRANSFER_LIMIT_EXCEEDED",
    }
