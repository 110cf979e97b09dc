"""A snapshot: what a root branch held at one point, kept until it expires or is deleted, whatever becomes of the
branch and its history.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from bough.ids import BranchId, ProjectId, SnapshotId, VolumeId


class SnapshotState(StrEnum):
    INIT = "init"  # planned; its volume is being made
    READY = "ready"  # branches can be made of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    id: SnapshotId
    project_id: ProjectId
    branch_id: BranchId  # whose it was; the branch may be gone
    volume_id: VolumeId
    name: str
    state: SnapshotState
    is_manual: bool  # or made by a schedule
    created_at: datetime
    updated_at: datetime
    lsn: str | None = None  # the point of its branch's life
    at: datetime | None = None
    full_bytes: int | None = None  # that its databases hold
    own_bytes: int | None = None  # on disk, that nobody else has
    expires_at: datetime | None = None
    deleted_at: datetime | None = None
