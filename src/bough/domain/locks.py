"""Locks of operations: which parts of a project an operation locks, and which locks conflict.

Two operations whose locks conflict never run at the same time. Each action states its own lock;
see `Action.locks`.
"""

from dataclasses import dataclass
from enum import StrEnum

from bough.ids import BranchId, EndpointId, ProjectId, SnapshotId


class LockLevel(StrEnum):
    """How much an operation locks."""

    ENDPOINT = "endpoint"
    REPLACEMENT = "replacement"  # the branch stays usable and its computes may start and stop; excludes replacements
    BRANCH = "branch"  # the volume of the branch, and therefore all its endpoints
    PROJECT = "project"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRequest:
    """What an action locks, given its parameters and its step. The project, branch and endpoint come from the row."""

    level: LockLevel
    source_id: BranchId | SnapshotId | None = None
    also_locked_id: BranchId | SnapshotId | None = None
    creates_branch: bool = False
    is_project_only: bool = False  # the branch and the endpoint are not locked


@dataclass(frozen=True, slots=True, kw_only=True)
class LockScope:
    """What an operation locks."""

    level: LockLevel
    project_id: ProjectId
    branch_id: BranchId | None = None
    endpoint_id: EndpointId | None = None
    source_id: BranchId | SnapshotId | None = None  # copied, not changed
    also_locked_id: BranchId | SnapshotId | None = None  # a second branch, or a snapshot, that is created or changed
    creates_branch: bool = False

    @classmethod
    def project(cls, project_id: ProjectId) -> "LockScope":
        """The whole project."""
        return cls(level=LockLevel.PROJECT, project_id=project_id)

    @classmethod
    def of(
        cls, request: LockRequest, project_id: ProjectId, branch_id: BranchId | None, endpoint_id: EndpointId | None
    ) -> "LockScope":
        if request.is_project_only:
            branch_id, endpoint_id = None, None
        return cls(
            level=request.level,
            project_id=project_id,
            branch_id=branch_id,
            endpoint_id=endpoint_id,
            source_id=request.source_id,
            also_locked_id=request.also_locked_id,
            creates_branch=request.creates_branch,
        )


def locks_conflict(one: LockScope, other: LockScope) -> bool:
    if one.project_id != other.project_id:
        return False
    if LockLevel.PROJECT in (one.level, other.level):
        return True
    if _excludes(one, other, _shared_ids(one, other)):
        return True
    if _changes_source(one, other) or _changes_source(other, one):
        return True
    return one.endpoint_id is not None and one.endpoint_id == other.endpoint_id


def _shared_ids(one: LockScope, other: LockScope) -> set[BranchId | SnapshotId | None]:
    """Return the branches and snapshots that both scopes name."""
    return {one.branch_id, one.also_locked_id} & {other.branch_id, other.also_locked_id} - {None}


def _excludes(one: LockScope, other: LockScope, shared: set[BranchId | SnapshotId | None]) -> bool:
    if not shared:
        return False
    levels = (one.level, other.level)
    both_replace = levels == (LockLevel.REPLACEMENT, LockLevel.REPLACEMENT)
    return both_replace or LockLevel.BRANCH in levels or bool(shared & {one.also_locked_id, other.also_locked_id})


def _changes_source(reader: LockScope, other: LockScope) -> bool:
    """Return whether `other` changes what `reader` copies. Creating the source does not: the copy runs after it."""
    if reader.source_id is None or other.creates_branch:
        return False
    return reader.source_id == other.also_locked_id or (
        reader.source_id == other.branch_id and other.level is LockLevel.BRANCH
    )
