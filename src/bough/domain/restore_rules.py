"""Which restores are allowed, and the history of a branch after a restore. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from bough.domain.branch import Branch, BranchLineage
from bough.domain.history import LineageRange
from bough.errors import Invalid, RuleViolation
from bough.ids import VolumeId


def truncate_lineages(
    ranges: Sequence[LineageRange], volume_id: VolumeId, lsn: str | None, at: datetime | None
) -> list[BranchLineage]:
    """End the history at a point in it: the branch was restored to that point of its own history.

    The result is empty when the volume is no longer part of the retained history.
    """
    indexes = [index for index, each in enumerate(ranges) if each.lineage.volume_id == volume_id]
    if not indexes:
        return []
    last = ranges[indexes[-1]]
    ended = replace(last.branch_lineage, until_lsn=lsn, until_at=at or last.starts_at)
    return [*(each.branch_lineage for each in ranges[: indexes[-1]]), ended]


def end_last_lineage(ranges: Sequence[LineageRange], lsn: str | None, at: datetime) -> list[BranchLineage]:
    """End the last range, because the branch continues with data of another branch."""
    if not ranges:
        return []
    return [
        *(each.branch_lineage for each in ranges[:-1]),
        replace(ranges[-1].branch_lineage, until_lsn=lsn, until_at=at),
    ]


def renew_expiration(branch: Branch, now: datetime) -> Branch:
    """Extend the expiration by its original time to live."""
    if branch.expires_at is None or branch.ttl_seconds is None:
        return branch
    return replace(branch, expires_at=now + timedelta(seconds=branch.ttl_seconds))


def check_restorable(
    branch: Branch, *, is_own_history: bool, is_head: bool, has_preserve_name: bool, has_children: bool
) -> None:
    if branch.is_protected:
        raise RuleViolation(
            f"The branch {branch.name!r} is protected, and protected branches cannot be restored or reset. "
            "Unprotect it first."
        )
    if is_own_history and is_head:
        raise Invalid("To restore a branch to its own history, give source_lsn or source_timestamp.")
    if is_own_history and not has_preserve_name:
        raise Invalid(
            "Restoring a branch to its own history keeps its current data in a new branch: give preserve_under_name."
        )
    if has_children and not has_preserve_name:
        raise RuleViolation(has_children_message(branch))


def has_children_message(branch: Branch) -> str:
    return (
        f"The branch {branch.name!r} has child branches, which need its current data: give preserve_under_name to move "
        "them to a branch of that name, or delete them first."
    )
