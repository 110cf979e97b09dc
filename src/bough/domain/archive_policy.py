"""Archiving: which branches are put away because nobody uses them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from bough.domain.branch import Branch, BranchState
from bough.domain.endpoint import Endpoint, EndpointState


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePolicy:
    """How old a branch must be, and for how long unused, before it is put away."""

    min_age: timedelta
    min_idle: timedelta


def last_used_at(branch: Branch, endpoints: Iterable[Endpoint]) -> datetime:
    """Endpoints that are gone count too."""
    moments = [branch.created_at, branch.last_reset_at]
    for endpoint in endpoints:
        moments += [endpoint.created_at, endpoint.last_active, endpoint.started_at, endpoint.suspended_at]
    if branch.state is not BranchState.ARCHIVED:
        moments.append(branch.state_changed_at)  # it was made, or brought back for somebody
    return max(moment for moment in moments if moment is not None)


def should_archive(
    branch: Branch,
    endpoints: Iterable[Endpoint],
    policy: ArchivePolicy,
    now: datetime,
    *,
    has_unarchived_children: bool,
) -> bool:
    """Whether it is to be put away."""
    every = list(endpoints)
    if branch.state is not BranchState.READY or branch.deleted_at is not None:
        return False
    if branch.is_default or branch.is_protected or has_unarchived_children:
        return False
    if any(_is_up(endpoint) for endpoint in every):
        return False
    return now - branch.created_at >= policy.min_age and now - last_used_at(branch, every) >= policy.min_idle


def _is_up(endpoint: Endpoint) -> bool:
    return endpoint.deleted_at is None and (
        endpoint.state is EndpointState.ACTIVE or endpoint.pending_state is EndpointState.ACTIVE
    )
