"""Which metrics are deleted when they take more than their share of the disk.

First the samples that are part of minutes and hours already, then minutes, then hours, the oldest first. Samples that
are not rolled up come last, because everything else is computed from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bough.domain.metrics.tiers import HOUR, MINUTE, SAMPLE_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGroup:
    """Everything that is stored for one moment at one step."""

    step: int
    is_pending: bool  # samples that are not rolled up
    at: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    step: int
    is_pending: bool
    before: int  # the moment


_ORDER = ((SAMPLE_SECONDS, False), (MINUTE, False), (HOUR, False), (SAMPLE_SECONDS, True))


def plan_deletions(groups: Sequence[StoredGroup], budget: int) -> list[Deletion]:
    """Return what to delete so that the rest fits into the budget in bytes."""
    excess = sum(group.bytes for group in groups) - budget
    deletions: list[Deletion] = []
    for step, is_pending in _ORDER:
        before: int | None = None
        kind = (group for group in groups if (group.step, group.is_pending) == (step, is_pending))
        for group in sorted(kind, key=lambda group: group.at):
            if excess <= 0:
                break
            excess -= group.bytes
            before = group.at + 1
        if before is not None:
            deletions.append(Deletion(step=step, is_pending=is_pending, before=before))
    return deletions
