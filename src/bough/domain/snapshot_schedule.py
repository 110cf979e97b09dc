"""A schedule of snapshots: which moments it names, which of them are due, and how long what was taken is kept. Pure.

Moments are hours in UTC. What was missed is made up for by one snapshot for each item, for the newest of its moments.
"""

from calendar import monthrange
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from bough.errors import Invalid
from bough.ids import BranchId, ProjectId

MIN_RETENTION_SECONDS, MAX_RETENTION_SECONDS = 3600, 3_024_000  # seconds that a snapshot is kept


class Frequency(StrEnum):
    HOURLY = "hourly"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"


_DAYS = {Frequency.WEEKLY: 7, Frequency.MONTHLY: 31}  # the last that can be asked for
_SECONDS = {
    Frequency.HOURLY: 3600,
    Frequency.DAILY: 86_400,
    Frequency.WEEKLY: 7 * 86_400,
    Frequency.MONTHLY: 28 * 86_400,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleItem:
    frequency: Frequency
    hour: int | None = None
    day: int | None = None  # of the week, from Monday on, or of the month; of a short one its last
    retention_seconds: int | None = None  # None: until somebody deletes them


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSchedule:
    branch_id: BranchId
    project_id: ProjectId
    items: Sequence[ScheduleItem]
    next_at: datetime  # the first of its moments that nobody has looked after
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledSnapshot:
    """A moment at which a snapshot is wanted."""

    frequency: Frequency
    at: datetime
    retention: timedelta | None  # None: for ever

    def name(self, branch_name: str) -> str:
        return f"{branch_name} {self.frequency} {self.at:%Y-%m-%d %H:%M}"


def check_schedule(items: Sequence[ScheduleItem]) -> None:
    for place, item in enumerate(items):
        _check_item(f"schedule[{place}]", item)
    moments = [_run_times_key(item) for item in items]
    if len(set(moments)) < len(moments):
        raise Invalid("schedule: two items name the same moments. Leave one of them out.")


def _check_item(where: str, item: ScheduleItem) -> None:
    if item.frequency is not Frequency.HOURLY and item.hour is None:
        raise Invalid(f"{where}.hour is missing: a {item.frequency} snapshot needs one, from 0 to 23, in UTC.")
    last = _DAYS.get(item.frequency)
    if last is not None and (item.day is None or item.day > last):
        raise Invalid(f"{where}.day: a {item.frequency} snapshot needs one, from 1 to {last}.")
    if (
        item.retention_seconds is not None
        and not MIN_RETENTION_SECONDS <= item.retention_seconds <= MAX_RETENTION_SECONDS
    ):
        raise Invalid(
            f"{where}.retention_seconds is {item.retention_seconds}: use {MIN_RETENTION_SECONDS} (an hour) "
            f"to {MAX_RETENTION_SECONDS} (35 days)."
        )


def _run_times_key(item: ScheduleItem) -> tuple[Frequency, int | None, int | None]:
    """What of an item says when."""
    if item.frequency is Frequency.HOURLY:
        return item.frequency, None, None
    return item.frequency, item.hour, item.day if item.frequency in _DAYS else None


def count_retained(items: Iterable[ScheduleItem]) -> int:
    """How many snapshots there are when it has run for long; of those that are kept for ever nobody can tell."""
    return sum(-(-(item.retention_seconds or 1) // _SECONDS[item.frequency]) for item in items)


def list_due(items: Iterable[ScheduleItem], since: datetime, now: datetime) -> list[ScheduledSnapshot]:
    """Of each item the newest moment from `since` to now, if there is one; where two have the same, the longer one."""
    found: dict[tuple[Frequency, datetime], ScheduledSnapshot] = {}
    for item in items:
        at = last_run_at(item, now)
        if at < since:
            continue
        slot = ScheduledSnapshot(frequency=item.frequency, at=at, retention=_retention(item))
        known = found.get((item.frequency, at))
        found[item.frequency, at] = slot if known is None else max(known, slot, key=_retention_or_max)
    return sorted(found.values(), key=lambda slot: slot.at)


def _retention(item: ScheduleItem) -> timedelta | None:
    return None if item.retention_seconds is None else timedelta(seconds=item.retention_seconds)


def _retention_or_max(slot: ScheduledSnapshot) -> timedelta:
    return timedelta.max if slot.retention is None else slot.retention


def next_run_of_all(items: Iterable[ScheduleItem], now: datetime) -> datetime | None:
    """The first moment after now; None: there is none."""
    return min((next_run_at(item, now) for item in items), default=None)


def last_run_at(item: ScheduleItem, now: datetime) -> datetime:
    """The last of its moments at or before now."""
    return max(at for at in _nearby_runs(item, now.astimezone(UTC)) if at <= now)


def next_run_at(item: ScheduleItem, now: datetime) -> datetime:
    """The first of its moments after now."""
    return min(at for at in _nearby_runs(item, now.astimezone(UTC)) if at > now)


def _nearby_runs(item: ScheduleItem, now: datetime) -> list[datetime]:
    """Its moments shortly before and after."""
    whole = now.replace(minute=0, second=0, microsecond=0)
    if item.frequency is Frequency.HOURLY:
        return [whole, whole + timedelta(hours=1)]
    hour = whole.replace(hour=item.hour or 0)
    if item.frequency is Frequency.DAILY:
        return [hour + timedelta(days=days) for days in (-1, 0, 1)]
    if item.frequency is Frequency.WEEKLY:
        monday = hour - timedelta(days=now.weekday())
        return [monday + timedelta(days=(item.day or 1) - 1 + days) for days in (-7, 0, 7)]
    return [_in_month(hour, months, item.day or 1) for months in (-1, 0, 1)]


def _in_month(hour: datetime, months: int, day: int) -> datetime:
    number = hour.year * 12 + hour.month - 1 + months
    year, month = number // 12, number % 12 + 1
    return hour.replace(year=year, month=month, day=min(day, monthrange(year, month)[1]))


def encode_items(items: Iterable[ScheduleItem]) -> list[dict[str, Any]]:
    """As it is stored: what was said, and how long snapshots are kept."""
    return [{name: value for name, value in asdict(item).items() if value is not None} for item in items]


def decode_items(stored: Iterable[Mapping[str, Any]]) -> tuple[ScheduleItem, ...]:
    return tuple(ScheduleItem(**{**fields, "frequency": Frequency(fields["frequency"])}) for fields in stored)
