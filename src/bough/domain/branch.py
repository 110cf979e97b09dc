"""A branch: a name, a volume that holds its data, and the lineages that are its history.

A lineage is one volume's life as a writer. A branch's history is a list of lineages; after a
restore the branch points at another volume, and the old lineage ends where it was left.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from bough.domain.allowance import Fullness
from bough.errors import Invalid, RuleViolation
from bough.ids import BranchId, LineageId, ProjectId, SnapshotId, UserId, VolumeId

DEFAULT_NAME = "main"
MAX_LIFETIME = timedelta(days=30)  # of a branch that expires
PARENT_DATA = "parent-data"
SCHEMA_ONLY = "schema-only"


class BranchState(StrEnum):
    INIT = "init"  # planned; its volume is being made
    READY = "ready"  # its volume may be opened
    ARCHIVED = "archived"  # nobody used it for long; its volume is put away, and made again on use


TRANSITIONS: dict[BranchState, set[BranchState]] = {
    BranchState.INIT: {BranchState.READY},
    BranchState.READY: {BranchState.ARCHIVED},
    BranchState.ARCHIVED: {BranchState.READY},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    id: BranchId
    project_id: ProjectId
    parent_id: BranchId | None
    parent_lsn: str | None
    parent_timestamp: datetime | None
    name: str
    state: BranchState
    state_changed_at: datetime
    volume_id: VolumeId
    is_default: bool
    is_protected: bool
    creation_source: str
    init_source: str
    annotations: Mapping[str, Any]
    logical_size: int | None
    created_by: UserId
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    ttl_seconds: int | None = None  # from when its expiration was set until then
    last_reset_at: datetime | None = None
    deleted_at: datetime | None = None
    deletion_method: str | None = None  # `user` or `ttl`
    recoverable_until: datetime | None = None  # of a deleted one; None: its data is gone
    restored_from: SnapshotId | None = None  # the snapshot that it was made of
    restored_for: BranchId | None = None  # whose place it takes once its restore is finalized
    finalized_at: datetime | None = None  # when it took that place
    replaced_by: BranchId | None = None  # who took its place
    written_bytes: int = 0  # WAL that was written since it was made, as far as it was measured
    wal_position: int | None = None  # where that was measured last
    fullness: Fullness = Fullness.BELOW_LIMIT
    stored_bytes: int | None = None  # that count towards its limit; known when there is no room


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    id: VolumeId
    project_id: ProjectId
    created_at: datetime
    retired_at: datetime | None = None  # no branch has it any more; its history may still be needed


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """One volume's life as a writer. What of it can be gone back to is kept up by a task."""

    id: LineageId
    project_id: ProjectId
    volume_id: VolumeId
    created_at: datetime
    began_at: datetime | None = None  # since when one can go back to it; None: not at all so far
    began_lsn: str | None = None  # the same as a position in its WAL
    history_bytes: int = 0  # on disk, for going back: WAL and bases


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchLineage:
    """A part of a branch's history: one lineage, from one point until another (or until now)."""

    branch_id: BranchId
    position: int
    lineage_id: LineageId
    from_lsn: str | None = None
    until_lsn: str | None = None  # None, when it has ended: all of its lineage
    from_at: datetime | None = None  # since when the branch was this
    until_at: datetime | None = None  # the last commit in it, when it has ended


def transition_branch(branch: Branch, to: BranchState, now: datetime) -> Branch:
    if branch.state == to:
        return branch
    if to not in TRANSITIONS[branch.state]:
        raise ValueError(f"branch {branch.id} cannot move from {branch.state} to {to}")
    return replace(branch, state=to, state_changed_at=now, updated_at=now)


def set_expiration(branch: Branch, at: datetime | None, now: datetime) -> Branch:
    """The branch with an end, or without one."""
    if at is None:
        return replace(branch, expires_at=None, ttl_seconds=None)
    if at <= now:
        raise Invalid(f"expires_at ({at.isoformat()}) is in the past; give a moment in the next 30 days.")
    if at > now + MAX_LIFETIME:
        raise Invalid(f"expires_at ({at.isoformat()}) is more than 30 days away; a branch expires within 30 days.")
    return replace(branch, expires_at=at.astimezone(UTC), ttl_seconds=round((at - now).total_seconds()))


def check_can_expire(branch: Branch, *, has_children: bool) -> None:
    """Whatever must not be deleted cannot be told to delete itself."""
    if branch.expires_at is None:
        return
    if reason := _deletion_obstacle(branch, has_children=has_children):
        raise RuleViolation(f"The branch {branch.name!r} cannot have expires_at: {reason}")


def check_deletable(branch: Branch, *, has_children: bool) -> None:
    if reason := _deletion_obstacle(branch, has_children=has_children):
        raise RuleViolation(f"The branch {branch.name!r} cannot be deleted: {reason}")


def check_can_have_children(branch: Branch) -> None:
    if branch.expires_at is not None:
        raise RuleViolation(
            f"The branch {branch.name!r} expires at {branch.expires_at.isoformat()}, so no branch can be made of it. "
            "Clear its expires_at first."
        )


def _deletion_obstacle(branch: Branch, *, has_children: bool) -> str | None:
    if branch.is_protected:
        return "it is protected. Unprotect it first."
    if branch.is_default:
        return "it is the default branch. Make another branch the default first."
    if branch.parent_id is None and branch.restored_from is None and branch.replaced_by is None:
        return "it is the project's root branch. Delete the project instead."
    if has_children:
        return "it has child branches. Delete those first."
    return None
