"""Branches: how they are shown."""

from datetime import datetime

from bough.api.shapes import View
from bough.domain.branch import Branch


class BranchCreator(View):
    name: str
    image: str


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
    expires_at: datetime | None
    last_reset_at: datetime | None
    created_by: BranchCreator | None
    init_source: str

    @classmethod
    def of(cls, branch: Branch, creator: str | None = None) -> "BranchView":
        return cls(
            id=branch.id,
            project_id=branch.project_id,
            parent_id=branch.parent_id,
            parent_lsn=branch.parent_lsn,
            parent_timestamp=branch.parent_timestamp,
            name=branch.name,
            current_state=branch.state,
            pending_state="ready" if branch.state == "init" else None,
            state_changed_at=branch.state_changed_at,
            logical_size=branch.logical_size,
            creation_source=branch.creation_source,
            primary=branch.is_default,
            default=branch.is_default,
            protected=branch.is_protected,
            cpu_used_sec=0,
            compute_time_seconds=0,
            active_time_seconds=0,
            written_data_bytes=0,
            data_transfer_bytes=0,
            created_at=branch.created_at,
            updated_at=branch.updated_at,
            expires_at=branch.expires_at,
            last_reset_at=branch.last_reset_at,
            created_by=BranchCreator(name=creator, image="") if creator is not None else None,
            init_source=branch.init_source,
        )
