"""The limits that stop the computes of a project: its quotas, and the data transfer of its plan. Pure.

A quota that is absent or 0 does not limit anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

WARNING_PERCENTS = (80, 100)
SETTINGS_KEY = "quota"
LOGICAL_SIZE = "logical_size_bytes"  # limits the branches of the project, each by itself


class Limit(StrEnum):
    ACTIVE_TIME = "active_time_seconds"
    COMPUTE_TIME = "compute_time_seconds"
    WRITTEN_DATA = "written_data_bytes"
    DATA_TRANSFER = "data_transfer_bytes"
    PLAN_TRANSFER = "plan_transfer"  # the plan's limit on what is sent to clients

    @property
    def code(self) -> str:
        """The code of errors of the API."""
        return _CODES[self]

    @property
    def noun(self) -> str:
        """Clients search messages for "exceeded the …"."""
        return _NOUNS[self]

    @property
    def is_in_seconds(self) -> bool:
        return self in (Limit.ACTIVE_TIME, Limit.COMPUTE_TIME)


QUOTA_LIMITS = (Limit.ACTIVE_TIME, Limit.COMPUTE_TIME, Limit.WRITTEN_DATA, Limit.DATA_TRANSFER)
LOGICAL_SIZE_CODE = "LOGICAL_SIZE_QUOTA_EXCEEDED"
LOGICAL_SIZE_NOUN = "logical size quota"
_CODES = {
    Limit.ACTIVE_TIME: "ACTIVE_TIME_QUOTA_EXCEEDED",
    Limit.COMPUTE_TIME: "COMPUTE_TIME_QUOTA_EXCEEDED",
    Limit.WRITTEN_DATA: "WRITTEN_DATA_QUOTA_EXCEEDED",
    Limit.DATA_TRANSFER: "DATA_TRANSFER_QUOTA_EXCEEDED",
    Limit.PLAN_TRANSFER: "DATA_TRANSFER_LIMIT_EXCEEDED",
}
_NOUNS = {
    Limit.ACTIVE_TIME: "active time quota",
    Limit.COMPUTE_TIME: "compute time quota",
    Limit.WRITTEN_DATA: "written data quota",
    Limit.DATA_TRANSFER: "data transfer quota",
    Limit.PLAN_TRANSFER: "data transfer limit",
}

Limits = Mapping[Limit, int]
Warnings = Mapping[str, int]  # limit, or size of a branch → the percentage that the owner was told of last


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodUsage:
    """What a project has used since the period began."""

    active_seconds: float = 0.0
    compute_seconds: float = 0.0
    written_bytes: int = 0
    bytes_out: int = 0

    def used(self, limit: Limit) -> float:
        if limit is Limit.ACTIVE_TIME:
            return self.active_seconds
        if limit is Limit.COMPUTE_TIME:
            return self.compute_seconds
        return self.written_bytes if limit is Limit.WRITTEN_DATA else self.bytes_out


def build_limits(settings: Mapping[str, Any], plan_quota: Mapping[str, int], plan_transfer_bytes: int) -> Limits:
    """Return the limits of a project in the order in which they are judged."""
    quota = effective_quota(settings, plan_quota)
    limits = {limit: quota[limit] for limit in QUOTA_LIMITS if quota.get(limit)}
    return {**limits, Limit.PLAN_TRANSFER: plan_transfer_bytes}


def effective_quota(settings: Mapping[str, Any], plan_quota: Mapping[str, int]) -> dict[str, int]:
    """Return the quota of a project: the plan's, as far as the project has no value of its own."""
    return {**plan_quota, **(settings.get(SETTINGS_KEY) or {})}


def storage_limit(settings: Mapping[str, Any], plan_quota: Mapping[str, int], plan_bytes: int) -> tuple[int, bool]:
    """Return what each branch may store, and whether this is the quota and not the plan's limit."""
    quota = effective_quota(settings, plan_quota).get(LOGICAL_SIZE)
    return (quota, True) if quota and quota < plan_bytes else (plan_bytes, False)


def find_reached(limits: Limits, usage: PeriodUsage) -> Limit | None:
    """Return the first limit that is reached."""
    return next((limit for limit, most in limits.items() if usage.used(limit) >= most), None)


def size_warning(branch_id: str) -> str:
    """Return the key of the warning about the size of a branch."""
    return f"{LOGICAL_SIZE}/{branch_id}"


def find_warnings(limits: Limits, usage: PeriodUsage) -> Warnings:
    """Return the highest percentage worth a warning that each limit has passed."""
    found: dict[str, int] = {}
    for limit, most in limits.items():
        passed = [percent for percent in WARNING_PERCENTS if usage.used(limit) * 100 >= most * percent]
        if passed:
            found[limit] = passed[-1]
    return found
