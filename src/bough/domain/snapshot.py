"""A snapshot: what a root branch held at one point, kept until it expires or is deleted, whatever becomes of the
branch and its history.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from bough.domain.branch import Branch
from bough.errors import Invalid, RuleViolation
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


def check_is_root(branch: Branch, what: str) -> None:
    if branch.parent_id is not None:
        raise RuleViolation(
            f"{what} only a root branch can have, and {branch.name!r} has a parent. Use its root branch."
        )


def check_expiry(at: datetime | None, now: datetime) -> datetime | None:
    if at is None:
        return None
    if at <= now:
        raise Invalid(f"expires_at ({at.isoformat()}) is in the past; give a moment to come.")
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise Invalid("expires_at is after the year 9999; leave it out for a snapshot that never expires.") from None


def default_name(branch_name: str, at: datetime) -> str:
    """Of one that its maker did not name."""
    return f"{branch_name} {at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def make_unique_name(preferred_name: str, existing_names: Collection[str]) -> str:
    """The name, with a number behind it when it is taken."""
    names = (preferred_name, *(f"{preferred_name} ({number})" for number in range(2, len(existing_names) + 3)))
    return next(name for name in names if name not in existing_names)


def make_replaced_name(branch_name: str, existing_names: Collection[str]) -> str:
    """What a branch is called after another took its place and its name."""
    names = (f"{branch_name} (old)", *(f"{branch_name} (old {number})" for number in range(2, len(existing_names) + 3)))
    return next(name for name in names if name not in existing_names)
