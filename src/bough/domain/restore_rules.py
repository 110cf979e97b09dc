"""What a branch's history is after it got other data, and what may be restored at all. Pure."""

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
    """The stretches that lead to a point of the branch's own history: what came after is not its past any more.

    None are left when what leads there is older than what is kept.
    """
    places = [place for place, past in enumerate(ranges) if past.lineage.volume_id == volume_id]
    if not places:
        return []
    last = ranges[places[-1]]
    ended = replace(last.branch_lineage, until_lsn=lsn, until_at=at or last.starts_at)
    return [*(past.branch_lineage for past in ranges[: places[-1]]), ended]


def end_last_lineage(ranges: Sequence[LineageRange], lsn: str | None, at: datetime) -> list[BranchLineage]:
    """All of its stretches; the last ends here, because the branch goes on with data of another."""
    if not ranges:
        return []
    return [
        *(past.branch_lineage for past in ranges[:-1]),
        replace(ranges[-1].branch_lineage, until_lsn=lsn, until_at=at),
    ]


def renew_expiration(branch: Branch, now: datetime) -> Branch:
    """It lives as long again as it was to live when its expiration was set."""
    if branch.expires_at is None or branch.ttl_seconds is None:
        return branch
    return replace(branch, expires_at=now + timedelta(seconds=branch.ttl_seconds))


def check_restorable(
    branch: Branch, *, is_own_history: bool, is_head: bool, has_preserve_name: bool, has_children: bool
) -> None:
    if branch.is_protected:
        raise RuleViolation(
            f"The branch {branch.name!r} is protected, and a protected branch cannot be restored or reset. "
            "Unprotect it first."
        )
    if is_own_history and is_head:
        raise Invalid("A branch is restored to a point of its own history: give source_lsn or source_timestamp.")
    if is_own_history and not has_preserve_name:
        raise Invalid(
            "A branch that is restored to a point of its own history keeps what it has now under another name: "
            "give preserve_under_name."
        )
    if has_children and not has_preserve_name:
        raise RuleViolation(has_children_message(branch))


def has_children_message(branch: Branch) -> str:
    return (
        f"The branch {branch.name!r} has child branches, and they cannot stay without what they were made of: "
        "give preserve_under_name, and they move to the branch of that name. Or delete them first."
    )
