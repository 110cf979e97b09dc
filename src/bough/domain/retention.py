"""What of a branch's past is kept: the stretches that a moment of its window still leads to, and since when. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bough.domain.history import LineageRange


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedRange:
    """A stretch that can be gone back to, and from which moment of its lineage on."""

    lineage_range: LineageRange
    since: datetime


def select_retained(ranges: Sequence[LineageRange], earliest_at: datetime) -> list[RetainedRange]:
    """Of a branch whose window opens then, in the order they were lived.

    A moment that a restore took away leads to the end of the stretch before it, however long ago that was; so a
    stretch is let go only when the window opens after the next one began.
    """
    found: list[RetainedRange] = []
    for past in reversed(ranges):
        found.append(RetainedRange(lineage_range=past, since=_since(past, earliest_at)))
        if past.starts_at is not None and past.starts_at <= earliest_at:
            break
    return found[::-1]


def select_expired(ranges: Sequence[LineageRange], earliest_at: datetime) -> list[LineageRange]:
    """The rest. What the branch is now is never among it."""
    return list(ranges[: len(ranges) - len(select_retained(ranges, earliest_at))])


def _since(past: LineageRange, opens_at: datetime) -> datetime:
    until = past.branch_lineage.until_at
    return opens_at if until is None else min(opens_at, until)
