"""A branch: a name, a volume with its data, and the lineages that form its history.

A lineage is the history of one volume while it is written. The history of a branch is a list of lineages: after a
restore the branch uses another volume, and the previous lineage ends at that point.
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
MAX_LIFETIME = timedelta(days=30)  # of a branch with expires_at
PARENT_DATA = "parent-data"
SCHEMA_ONLY = "schema-only"


class BranchState(StrEnum):
    INIT = "init"  # its volume is being created
    READY = "ready"  # its volume can be opened
    ARCHIVED = "archived"  # unused; its volume is compressed, and unpacked on use


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
    ttl_seconds: int | None = None  # seconds from setting the expiration until it expires
    last_reset_at: datetime | None = None
    deleted_at: datetime | None = None
    deletion_method: str | None = None  # `user` or `ttl`
    recoverable_until: datetime | None = None  # of a deleted branch; None: its data is gone
    restored_from: SnapshotId | None = None  # the snapshot that it was created from
    restored_for: BranchId | None = None  # the branch that it replaces when its restore is finalized
    finalized_at: datetime | None = None  # when it replaced that branch
    replaced_by: BranchId | None = None  # the branch that replaced it
    written_bytes: int = 0  # WAL written since its creation, as measured
    wal_position: int | None = None  # the WAL position of the last measurement
    fullness: Fullness = Fullness.BELOW_LIMIT
    stored_bytes: int | None = None  # counted towards the storage limit; set when the limit is reached

    @property
    def is_copy(self) -> bool:
        """Whether it exists next to the branch whose data it has: a child, a restored branch, or a replaced one."""
        is_restored = self.restored_from is not None and self.finalized_at is None
        return self.parent_id is not None or self.replaced_by is not None or is_restored


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    id: VolumeId
    project_id: ProjectId
    created_at: datetime
    retired_at: datetime | None = None  # no branch uses it any more; its history may still be needed


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The history of one volume while it is written. A task updates which part of it can be restored."""

    id: LineageId
    project_id: ProjectId
    volume_id: VolumeId
    created_at: datetime
    began_at: datetime | None = None  # the earliest restorable time; None: nothing can be restored yet
    began_lsn: str | None = None  # the earliest restorable WAL position
    history_bytes: int = 0  # size of the WAL archive and the bases


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchLineage:
    """A part of a branch's history: one lineage from one point to another, or until now."""

    branch_id: BranchId
    position: int
    lineage_id: LineageId
    from_lsn: str | None = None
    until_lsn: str | None = None  # None in a part that has ended: the end of the lineage
    from_at: datetime | None = None  # when the branch started to use the lineage
    until_at: datetime | None = None  # the last commit of a part that has ended


def transition_branch(branch: Branch, to: BranchState, now: datetime) -> Branch:
    if branch.state == to:
        return branch
    if to not in TRANSITIONS[branch.state]:
        raise ValueError(f"branch {branch.id} cannot move from {branch.state} to {to}")
    return replace(branch, state=to, state_changed_at=now, updated_at=now)


def set_expiration(branch: Branch, at: datetime | None, now: datetime) -> Branch:
    """Set or clear the expiration."""
    if at is None:
        return replace(branch, expires_at=None, ttl_seconds=None)
    if at <= now:
        raise Invalid(f"expires_at ({at.isoformat()}) is in the past; use a time within the next 30 days.")
    if at > now + MAX_LIFETIME:
        raise Invalid(f"expires_at ({at.isoformat()}) is more than 30 days away; use a time within the next 30 days.")
    return replace(branch, expires_at=at.astimezone(UTC), ttl_seconds=round((at - now).total_seconds()))


def check_can_expire(branch: Branch, *, has_children: bool) -> None:
    """A branch that must not be deleted cannot have an expiration."""
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
            f"The branch {branch.name!r} expires at {branch.expires_at.isoformat()}, so no branch can be created from "
            "it. Clear its expires_at first."
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
