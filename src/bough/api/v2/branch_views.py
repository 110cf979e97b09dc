"""Responses that contain branches."""

from datetime import datetime

from bough.api.schemas import View
from bough.domain.branch import Branch, BranchState
from bough.store.branch_pages import BranchUsage, BranchWithUsage


class BranchCreator(View):
    name: str
    image: str


class BranchRecovery(View):
    """Only for a deleted branch. If it cannot be recovered, `recoverable_until` equals `deleted_at`."""

    deleted_at: datetime
    recoverable_until: datetime
    deletion_method: str

    @classmethod
    def of(cls, branch: Branch) -> "BranchRecovery | None":
        if branch.deleted_at is None:
            return None
        until = branch.recoverable_until or branch.deleted_at
        method = branch.deletion_method or "user"
        return cls(deleted_at=branch.deleted_at, recoverable_until=until, deletion_method=method)


class BranchView(View):
    id: str
    project_id: str
    parent_id: str | None
    parent_lsn: str | None
    parent_timestamp: datetime | None
    name: str
    current_state: str
    pending_state: str | None
    state_changed_at: datetime
    logical_size: int | None
    creation_source: str
    primary: bool
    default: bool
    protected: bool
    cpu_used_sec: int
    compute_time_seconds: int
    active_time_seconds: int
    written_data_bytes: int
    data_transfer_bytes: int
    created_at: datetime
    updated_at: datetime
    ttl_interval_seconds: int | None
    expires_at: datetime | None
    last_reset_at: datetime | None
    created_by: BranchCreator | None
    init_source: str
    restore_status: str | None  # of a branch that was created from a snapshot
    restored_from: str | None  # the snapshot
    restored_as: str | None  # the branch that it replaces or has replaced
    recovery: BranchRecovery | None

    @classmethod
    def of(cls, entry: BranchWithUsage) -> "BranchView":
        return cls.with_usage(entry.branch, entry.usage, entry.creator)

    @classmethod
    def new(cls, branch: Branch, creator: str | None) -> "BranchView":
        """Return a new branch without usage."""
        return cls.with_usage(branch, BranchUsage(), creator)

    @classmethod
    def with_usage(cls, branch: Branch, usage: BranchUsage, creator: str | None) -> "BranchView":
        is_created = branch.state is not BranchState.INIT
        return cls(
            id=branch.id,
            project_id=branch.project_id,
            parent_id=branch.parent_id,
            parent_lsn=branch.parent_lsn,
            parent_timestamp=branch.parent_timestamp,
            name=branch.name,
            current_state=branch.state,
            pending_state=None if is_created or branch.deleted_at else BranchState.READY,
            state_changed_at=branch.state_changed_at,
            logical_size=branch.logical_size,
            creation_source=branch.creation_source,
            primary=branch.is_default,
            default=branch.is_default,
            protected=branch.is_protected,
            cpu_used_sec=usage.cpu_seconds,
            compute_time_seconds=usage.compute_seconds,
            active_time_seconds=usage.active_seconds,
            written_data_bytes=usage.written_bytes,
            data_transfer_bytes=usage.bytes_out,
            created_at=branch.created_at,
            updated_at=branch.updated_at,
            ttl_interval_seconds=branch.ttl_seconds,
            expires_at=branch.expires_at,
            last_reset_at=branch.last_reset_at,
            created_by=BranchCreator(name=creator, image="") if creator is not None else None,
            init_source=branch.init_source,
            restore_status=_restore_status(branch),
            restored_from=branch.restored_from,
            restored_as=branch.restored_for,
            recovery=BranchRecovery.of(branch),
        )


def _restore_status(branch: Branch) -> str | None:
    if branch.restored_from is None:
        return None
    return "restored" if branch.finalized_at is None else "finalized"


class AnnotationObject(View):
    type: str
    id: str


class Annotation(View):
    object: AnnotationObject
    value: dict[str, str]
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, branch: Branch) -> "Annotation":
        return cls(
            object=AnnotationObject(type="console/branch", id=branch.id),
            value={name: str(value) for name, value in branch.annotations.items()},
            created_at=branch.created_at,
            updated_at=branch.updated_at,
        )
