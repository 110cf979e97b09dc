"""The limit of what a branch stores, and the states of branches that exceed it."""

from enum import StrEnum

HARD_LIMIT_FACTOR = 1.2  # times the limit: above it, the branch is read-only
RELEASE_FACTOR = 0.95  # times the limit: a full branch must fall below it to be released, which prevents flapping


class Fullness(StrEnum):
    """How much of the storage limit of its plan a branch uses."""

    BELOW_LIMIT = "room"
    FULL = "full"  # transactions are read-only by default
    OVERFULL = "overfull"  # all transactions are read-only


def is_worse(fullness: Fullness, than: Fullness) -> bool:
    order = list(Fullness)
    return order.index(fullness) > order.index(than)


def classify_fullness(current: Fullness, stored_bytes: int, limit_bytes: int) -> Fullness:
    """A full branch stays full until it is clearly below its limit. An overfull one becomes writable at the limit:
    a branch that cannot be written cannot shrink.
    """
    if stored_bytes > limit_bytes * HARD_LIMIT_FACTOR:
        return Fullness.OVERFULL
    if stored_bytes > limit_bytes:
        return Fullness.FULL
    return (
        Fullness.FULL
        if current is Fullness.FULL and stored_bytes > limit_bytes * RELEASE_FACTOR
        else Fullness.BELOW_LIMIT
    )
