"""What a project may store and transfer, and what becomes of it when that is used up."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from bough.ids import ProjectId

HARD_LIMIT_FACTOR = 1.2  # times the limit: above it nothing can be written
RELEASE_FACTOR = 0.95  # times the limit: below it there is room again, so that nobody is let in and out at every look
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


class Fullness(StrEnum):
    """How a branch stands to the storage that its plan allows."""

    BELOW_LIMIT = "room"
    FULL = "full"  # its transactions are read-only unless they ask for more
    OVERFULL = "overfull"  # nothing can be written


def is_worse(fullness: Fullness, than: Fullness) -> bool:
    order = list(Fullness)
    return order.index(fullness) > order.index(than)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPeriod:
    """Of what its clients got a project counts what they got since its period began."""

    project_id: ProjectId
    began_at: datetime
    bytes_before: int  # that they had got by then
    is_over: bool = False  # they got all that the plan allows


def classify_fullness(current: Fullness, stored_bytes: int, limit_bytes: int) -> Fullness:
    """One that is full stays so until it is clearly below its limit; one where nothing is written cannot shrink."""
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
    known: TransferPeriod | None,
    project_id: ProjectId,
    created_at: datetime,
    transferred_bytes: int,
    month_start: datetime | None,
) -> TransferPeriod:
    """The one that counts now; `month` is the beginning of the month, None when the first period lasts for ever.

    Nobody knows how much of what an older project moved was this month, so that counts as nothing.
    """
    if known is None:
        is_older = month_start is not None and created_at < month_start
        known = TransferPeriod(
            project_id=project_id, began_at=created_at, bytes_before=transferred_bytes if is_older else 0
        )
    if month_start is None or known.began_at >= month_start:
        return known
    return TransferPeriod(project_id=project_id, began_at=month_start, bytes_before=transferred_bytes)


def update_transfer_period(period: TransferPeriod, transferred_bytes: int, limit_bytes: int) -> TransferPeriod:
    return replace(period, is_over=transferred_bytes - period.bytes_before >= limit_bytes)


def start_of_month(now: datetime) -> datetime:
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def start_of_next_month(now: datetime) -> datetime:
    first = start_of_month(now)
    return first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)


def format_bytes(size: int) -> str:
    """A number of bytes, in the largest unit that fits: 100 MB."""
    unit, left = 0, float(size)
    while left >= 1024 and unit < len(_UNITS) - 1:
        left /= 1024
        unit += 1
    return f"{round(left, 1):g} {_UNITS[unit]}"
