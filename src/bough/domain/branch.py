"""A branch: a name, a volume that holds its data, and the lineages that are its history.

A lineage is one volume's life as a writer. A branch's history is a list of lineages; after a
restore the branch points at another volume, and the old lineage ends where it was left.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from bough.ids import BranchId, LineageId, ProjectId, UserId, VolumeId

DEFAULT_NAME = "main"


class BranchState(StrEnum):
    INIT = "init"  # planned; its volume is being made
    READY = "ready"  # its volume may be opened


MOVES: dict[BranchState, set[BranchState]] = {
    BranchState.INIT: {BranchState.READY},
    BranchState.READY: set(),
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
    last_reset_at: datetime | None = None
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    id: VolumeId
    project_id: ProjectId
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    id: LineageId
    project_id: ProjectId
    volume_id: VolumeId
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageStretch:
    """A part of a branch's history: one lineage, from one LSN until another (or until now)."""

    branch_id: BranchId
    position: int
    lineage_id: LineageId
    from_lsn: str | None
    until_lsn: str | None


def moved(branch: Branch, to: BranchState, now: datetime) -> Branch:
    if branch.state == to:
        return branch
    if to not in MOVES[branch.state]:
        raise ValueError(f"branch {branch.id} cannot move from {branch.state} to {to}")
    return replace(branch, state=to, state_changed_at=now, updated_at=now)
