"""What of a branch's past is kept: the stretches that a moment of its window still leads to, and since when. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bough.domain.history import Past


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A stretch that can be gone back to, and from which moment of its lineage on."""

    past: Past
    since: datetime


def wanted(pasts: Sequence[Past], opens_at: datetime) -> list[Wanted]:
    """Of a branch whose window opens then, in the order they were lived.

    A moment that a restore took away leads to the end of the stretch before it, however long ago that was; so a
    stretch is let go only when the window opens after the next one began.
    """
    found: list[Wanted] = []
    for past in reversed(pasts):
        found.append(Wanted(past=past, since=_since(past, opens_at)))
        if past.begins_at is not None and past.begins_at <= opens_at:
            break
    return found[::-1]


def unwanted(pasts: Sequence[Past], opens_at: datetime) -> list[Past]:
    """The rest. What the branch is now is never among it."""
    return list(pasts[: len(pasts) - len(wanted(pasts, opens_at))])


def _since(past: Past, opens_at: datetime) -> datetime:
    until = past.stretch.until_at
    return opens_at if until is None else min(opens_at, until)
