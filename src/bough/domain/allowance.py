"""Limits of storage and traffic, and the states of branches and projects that exceed them."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from bough.ids import ProjectId

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTransferPeriod:
    """The period for which the outgoing traffic of a project is counted, usually a month."""

    project_id: ProjectId
    began_at: datetime
    bytes_before: int  # the total at the start of the period
    is_limit_reached: bool = field(default=False, metadata={"column": "is_over"})


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


def current_transfer_period(
    known: DataTransferPeriod | None,
    project_id: ProjectId,
    created_at: datetime,
    transferred_bytes: int,
    month_start: datetime | None,
) -> DataTransferPeriod:
    """Return the current period. Without `month_start`, the first period never ends.

    For an older project without a known period, earlier traffic does not count: how much of it was in this month is
    not known.
    """
    if known is None:
        is_older = month_start is not None and created_at < month_start
        known = DataTransferPeriod(
            project_id=project_id, began_at=created_at, bytes_before=transferred_bytes if is_older else 0
        )
    if month_start is None or known.began_at >= month_start:
        return known
    return DataTransferPeriod(project_id=project_id, began_at=month_start, bytes_before=transferred_bytes)


def update_transfer_period(period: DataTransferPeriod, transferred_bytes: int, limit_bytes: int) -> DataTransferPeriod:
    return replace(period, is_limit_reached=transferred_bytes - period.bytes_before >= limit_bytes)
