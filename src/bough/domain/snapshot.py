"""A snapshot: the data of a root branch at one point, kept until it expires or is deleted.

It does not depend on the branch and its history.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from bough.domain.branch import Branch
from bough.errors import Invalid, RuleViolation
from bough.ids import BranchId, ProjectId, SnapshotId, VolumeId


class SnapshotState(StrEnum):
    INIT = "init"  # its volume is being created
    READY = "ready"  # branches can be created from it


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    id: SnapshotId
    project_id: ProjectId
    branch_id: BranchId  # the source; it may be deleted
    volume_id: VolumeId
    name: str
    state: SnapshotState
    is_manual: bool  # or created by a schedule
    created_at: datetime
    updated_at: datetime
    lsn: str | None = None  # the point in the history of the branch
    at: datetime | None = None
    full_bytes: int | None = None  # logical size of its databases
    own_bytes: int | None = None  # on disk, not shared with other volumes
    expires_at: datetime | None = None
    deleted_at: datetime | None = None


def check_is_root(branch: Branch, what: str) -> None:
    if branch.parent_id is not None:
        raise RuleViolation(
            f"Only a root branch can have {what}, and {branch.name!r} has a parent. Use its root branch."
        )


def check_expiry(at: datetime | None, now: datetime) -> datetime | None:
    if at is None:
        return None
    if at <= now:
        raise Invalid(f"expires_at ({at.isoformat()}) is in the past; use a future time.")
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise Invalid("expires_at is after the year 9999; omit it for a snapshot that never expires.") from None


def default_name(branch_name: str, at: datetime) -> str:
    """Return the name of a snapshot that is created without one."""
    return f"{branch_name} {at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def make_unique_name(preferred_name: str, existing_names: Collection[str]) -> str:
    """Return the name, with a number appended when it is in use."""
    names = (preferred_name, *(f"{preferred_name} ({number})" for number in range(2, len(existing_names) + 3)))
    return next(name for name in names if name not in existing_names)


def make_replaced_name(branch_name: str, existing_names: Collection[str]) -> str:
    """Return the new name of a branch that another one replaces."""
    names = (f"{branch_name} (old)", *(f"{branch_name} (old {number})" for number in range(2, len(existing_names) + 3)))
    return next(name for name in names if name not in existing_names)
