"""What a project may store and transfer, and what becomes of it when that is used up."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from bough.ids import ProjectId

HARD = 1.2  # times the limit: above it nothing can be written
BACK = 0.95  # times the limit: below it there is room again, so that nobody is let in and out at every look
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


class Fullness(StrEnum):
    """How a branch stands to the storage that its plan allows."""

    ROOM = "room"
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


def fullness(now: Fullness, stored: int, limit: int) -> Fullness:
    """One that is full stays so until it is clearly below its limit; one where nothing is written cannot shrink."""
    if stored > limit * HARD:
        return Fullness.OVERFULL
    if stored > limit:
        return Fullness.FULL
    return Fullness.FULL if now is Fullness.FULL and stored > limit * BACK else Fullness.ROOM


def period(
    known: TransferPeriod | None, project_id: ProjectId, created_at: datetime, moved: int, month: datetime | None
) -> TransferPeriod:
    """The one that counts now; `month` is the beginning of the month, None when the first period lasts for ever.

    Nobody knows how much of what an older project moved was this month, so that counts as nothing.
    """
    if known is None:
        is_older = month is not None and created_at < month
        known = TransferPeriod(project_id=project_id, began_at=created_at, bytes_before=moved if is_older else 0)
    if month is None or known.began_at >= month:
        return known
    return TransferPeriod(project_id=project_id, began_at=month, bytes_before=moved)


def counted(period: TransferPeriod, moved: int, limit: int) -> TransferPeriod:
    return replace(period, is_over=moved - period.bytes_before >= limit)


def month_of(now: datetime) -> datetime:
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def month_after(now: datetime) -> datetime:
    first = month_of(now)
    return first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)


def in_words(size: int) -> str:
    """A number of bytes, in the largest unit that fits: 100 MB."""
    unit, left = 0, float(size)
    while left >= 1024 and unit < len(_UNITS) - 1:
        left /= 1024
        unit += 1
    return f"{round(left, 1):g} {_UNITS[unit]}"
