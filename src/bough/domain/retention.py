"""Which parts of a branch's history the retention window needs, and since when. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bough.domain.history import LineageRange


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedRange:
    """A range that can be restored, and since when its lineage must be kept."""

    lineage_range: LineageRange
    since: datetime


def select_retained(ranges: Sequence[LineageRange], earliest_at: datetime) -> list[RetainedRange]:
    """Return the ranges that a restore window from `earliest_at` on needs, oldest first.

    A time whose changes were discarded by a restore means the end of the range before it, however old that is. So a
    range expires only when the window starts after the start of the next range.
    """
    found: list[RetainedRange] = []
    for each in reversed(ranges):
        found.append(RetainedRange(lineage_range=each, since=_since(each, earliest_at)))
        if each.starts_at is not None and each.starts_at <= earliest_at:
            break
    return found[::-1]


def select_expired(ranges: Sequence[LineageRange], earliest_at: datetime) -> list[LineageRange]:
    """All other ranges. The current one never expires."""
    return list(ranges[: len(ranges) - len(select_retained(ranges, earliest_at))])


def _since(lineage_range: LineageRange, earliest_at: datetime) -> datetime:
    until = lineage_range.branch_lineage.until_at
    return earliest_at if until is None else min(earliest_at, until)
