"""An operation: work that has an owner, parameters and an end, and that users see.

Its row is the queue entry and the public record at once. Which operations may not run beside
one another is decided here, by what each action touches.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from bough.ids import BranchId, EndpointId, OperationId, ProjectId, SnapshotId


class OperationAction(StrEnum):
    """Out of the set that existing clients know."""

    CREATE_TIMELINE = "create_timeline"  # make the volume of a new root branch
    CREATE_BRANCH = "create_branch"  # make the volume of a child from its parent's
    START_COMPUTE = "start_compute"  # make an endpoint accept connections
    SUSPEND_COMPUTE = "suspend_compute"  # stop an endpoint's compute
    APPLY_CONFIG = "apply_config"  # bring new settings to a running compute, or change roles and databases
    DELETE_TIMELINE = "delete_timeline"  # remove a branch's data for good
    APPLY_STORAGE_CONFIG = "apply_storage_config"  # keep as much history as was asked for
    TIMELINE_ARCHIVE = "timeline_archive"  # put a branch away that nobody uses
    TIMELINE_UNARCHIVE = "timeline_unarchive"  # bring it back


class OperationStatus(StrEnum):
    SCHEDULING = "scheduling"  # written, waits for its turn
    RUNNING = "running"  # a runner has begun it
    FINISHED = "finished"  # done
    FAILED = "failed"  # given up and undone; `error` says why
    CANCELLING = "cancelling"  # being undone by request
    CANCELLED = "cancelled"  # will not run
    SKIPPED = "skipped"  # there was nothing to do


TERMINAL_STATUSES = frozenset(
    {OperationStatus.FINISHED, OperationStatus.FAILED, OperationStatus.CANCELLED, OperationStatus.SKIPPED}
)


class LockLevel(StrEnum):
    """How far an action's hands go."""

    ENDPOINT = "endpoint"
    REPLACEMENT = (
        "beside"  # the branch goes on as it is, and its endpoints come and go; only nobody else may replace it
    )
    BRANCH = "branch"  # the branch's volume, and so every endpoint on it
    PROJECT = "project"


LOCK_LEVELS = {
    OperationAction.CREATE_TIMELINE: LockLevel.BRANCH,
    OperationAction.CREATE_BRANCH: LockLevel.BRANCH,
    OperationAction.START_COMPUTE: LockLevel.ENDPOINT,
    OperationAction.SUSPEND_COMPUTE: LockLevel.ENDPOINT,
    OperationAction.APPLY_CONFIG: LockLevel.ENDPOINT,
    OperationAction.DELETE_TIMELINE: LockLevel.BRANCH,
    OperationAction.APPLY_STORAGE_CONFIG: LockLevel.REPLACEMENT,
    OperationAction.TIMELINE_ARCHIVE: LockLevel.BRANCH,
    OperationAction.TIMELINE_UNARCHIVE: LockLevel.BRANCH,
}

CREATES_BRANCH = frozenset({OperationAction.CREATE_TIMELINE, OperationAction.CREATE_BRANCH})

CHANGE_KEY = "change"  # the parameter of a change to a branch's roles or databases
SOURCE_KEY = "source_id"  # the parameter that names the branch or snapshot whose data is copied
VARIANT_KEY = "variant"  # the parameter that tells apart what goes by the name of one action; see `Variant`
ALSO_LOCKED_KEY = "also_id"  # the parameter that names another branch, or a snapshot, which is changed with the first
PREPARE_STEP = "prepare"  # the step in which a restore makes what it will switch to
RESUMES_KEY = "resumes"  # the parameter of a start that follows a restore, of an endpoint which serves until then


class Variant(StrEnum):
    """Work that clients know by the action's name, and that has steps of its own."""

    RESTORE = "restore"  # of create_timeline: an existing branch gets other data
    SNAPSHOT = "snapshot"  # of create_branch and delete_timeline: the data of a snapshot, which is no branch's
    FINALIZE = "finalize"  # of create_timeline: a restored branch takes the place of another


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    id: OperationId
    project_id: ProjectId
    branch_id: BranchId | None
    endpoint_id: EndpointId | None
    action: OperationAction
    status: OperationStatus
    parameters: Mapping[str, Any]
    after: OperationId | None  # does not begin before this one finished
    step: str  # the step to run next
    steps_done: tuple[str, ...]
    undoing: bool
    failures: int
    error: str | None
    due_at: datetime
    lease_until: datetime | None
    fence: int  # grows with every lease; a write under an old one is refused
    request_id: str
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    is_urgent: bool = False  # somebody waits for it at the door
    crashes: int = 0  # times that control died while the present step ran

    @property
    def has_ended(self) -> bool:
        return self.status in TERMINAL_STATUSES


@dataclass(frozen=True, slots=True, kw_only=True)
class LockScope:
    """What a piece of work lays hands on; two touches conflict or do not."""

    level: LockLevel
    project_id: ProjectId
    branch_id: BranchId | None = None
    endpoint_id: EndpointId | None = None
    source_id: BranchId | SnapshotId | None = None  # what is only copied
    also_locked_id: BranchId | SnapshotId | None = (
        None  # what is changed or made with the first, and nobody else's meanwhile
    )
    creates_branch: bool = False


class OperationRequest(Protocol):
    """What is done or asked for, on what."""

    @property
    def action(self) -> OperationAction: ...
    @property
    def project_id(self) -> ProjectId: ...
    @property
    def branch_id(self) -> BranchId | None: ...
    @property
    def endpoint_id(self) -> EndpointId | None: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...


def lock_of(work: OperationRequest) -> LockScope:
    """A change to roles or databases is the whole branch's matter, whoever serves it. A restore leaves the branch to
    its users while it prepares, and takes it for itself when it switches; then it has copied what it needed. What is
    to be started after it is in nobody's way before.
    """
    if RESUMES_KEY in work.parameters and getattr(work, "status", None) is OperationStatus.SCHEDULING:
        return LockScope(level=LockLevel.ENDPOINT, project_id=work.project_id)
    reach = LockLevel.BRANCH if CHANGE_KEY in work.parameters else LOCK_LEVELS[work.action]
    variant = work.parameters.get(VARIANT_KEY)
    step = getattr(work, "step", None)
    if variant == Variant.RESTORE and step == PREPARE_STEP:
        reach = LockLevel.REPLACEMENT
    has_copied = variant == Variant.RESTORE and step not in (None, PREPARE_STEP)
    return LockScope(
        level=reach,
        project_id=work.project_id,
        branch_id=work.branch_id,
        endpoint_id=work.endpoint_id,
        source_id=None if has_copied else work.parameters.get(SOURCE_KEY),
        also_locked_id=work.parameters.get(ALSO_LOCKED_KEY),
        creates_branch=work.action in CREATES_BRANCH and variant is None,
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
    """The branches that both are about."""
    return {one.branch_id, one.also_locked_id} & {other.branch_id, other.also_locked_id} - {None}


def _excludes(one: LockScope, other: LockScope, shared: set[BranchId | SnapshotId | None]) -> bool:
    if not shared:
        return False
    reaches = (one.level, other.level)
    both_beside = reaches == (LockLevel.REPLACEMENT, LockLevel.REPLACEMENT)
    return both_beside or LockLevel.BRANCH in reaches or bool(shared & {one.also_locked_id, other.also_locked_id})


def _changes_source(reader: LockScope, other: LockScope) -> bool:
    """Whether the other changes what is being copied. Its making does not: the copy is put in line behind it."""
    if reader.source_id is None or other.creates_branch:
        return False
    return reader.source_id == other.also_locked_id or (
        reader.source_id == other.branch_id and other.level is LockLevel.BRANCH
    )
