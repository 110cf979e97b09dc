"""What a branch's history is after it got other data, and what may be restored at all. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from bough.domain.branch import Branch, LineageStretch
from bough.domain.history import Past
from bough.errors import Invalid, RuleBroken
from bough.ids import VolumeId


def gone_back(pasts: Sequence[Past], volume_id: VolumeId, lsn: str | None, at: datetime | None) -> list[LineageStretch]:
    """The stretches that lead to a point of the branch's own history: what came after is not its past any more.

    None are left when what leads there is older than what is kept.
    """
    places = [place for place, past in enumerate(pasts) if past.lineage.volume_id == volume_id]
    if not places:
        return []
    last = pasts[places[-1]]
    ended = replace(last.stretch, until_lsn=lsn, until_at=at or last.begins_at)
    return [*(past.stretch for past in pasts[: places[-1]]), ended]


def left(pasts: Sequence[Past], lsn: str | None, at: datetime) -> list[LineageStretch]:
    """All of its stretches; the last ends here, because the branch goes on with data of another."""
    if not pasts:
        return []
    return [*(past.stretch for past in pasts[:-1]), replace(pasts[-1].stretch, until_lsn=lsn, until_at=at)]


def renewed_expiration(branch: Branch, now: datetime) -> Branch:
    """It lives as long again as it was to live when its expiration was set."""
    if branch.expires_at is None or branch.ttl_seconds is None:
        return branch
    return replace(branch, expires_at=now + timedelta(seconds=branch.ttl_seconds))


def check_restorable(branch: Branch, *, to_itself: bool, is_head: bool, preserves: bool, has_children: bool) -> None:
    if branch.is_protected:
        raise RuleBroken(
            f"The branch {branch.name!r} is protected, and a protected branch cannot be restored or reset. "
            "Unprotect it first."
        )
    if to_itself and is_head:
        raise Invalid("A branch is restored to a point of its own history: give source_lsn or source_timestamp.")
    if to_itself and not preserves:
        raise Invalid(
            "A branch that is restored to a point of its own history keeps what it has now under another name: "
            "give preserve_under_name."
        )
    if has_children and not preserves:
        raise RuleBroken(has_children_sentence(branch))


def has_children_sentence(branch: Branch) -> str:
    return (
        f"The branch {branch.name!r} has child branches, and they cannot stay without what they were made of: "
        "give preserve_under_name, and they move to the branch of that name. Or delete them first."
    )
