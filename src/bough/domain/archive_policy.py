"""Which unused branches are archived automatically. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from bough.domain.branch import Branch, BranchState
from bough.domain.endpoint import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePolicy:
    """The minimum age and idle time of a branch that is archived automatically."""

    min_age: timedelta
    min_idle: timedelta


def last_used_at(branch: Branch, endpoints: Iterable[Endpoint]) -> datetime:
    """Deleted endpoints count too."""
    times = [branch.created_at, branch.last_reset_at]
    for endpoint in endpoints:
        times += [endpoint.created_at, endpoint.last_active, endpoint.started_at, endpoint.suspended_at]
    if branch.state is not BranchState.ARCHIVED:
        times.append(branch.state_changed_at)  # it was created or unarchived then
    return max(time for time in times if time is not None)


def should_archive(
    branch: Branch,
    endpoints: Iterable[Endpoint],
    policy: ArchivePolicy,
    now: datetime,
    *,
    has_unarchived_children: bool,
) -> bool:
    all_endpoints = list(endpoints)
    if branch.state is not BranchState.READY or branch.deleted_at is not None:
        return False
    if branch.is_default or branch.is_protected or has_unarchived_children:
        return False
    if any(endpoint.deleted_at is None and endpoint.is_active_or_starting for endpoint in all_endpoints):
        return False
    return now - branch.created_at >= policy.min_age and now - last_used_at(branch, all_endpoints) >= policy.min_idle
