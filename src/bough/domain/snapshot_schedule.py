"""A schedule of snapshots: when they are due and how long they are kept. Pure.

Times are full hours in UTC. After missed runs each item creates one snapshot, for the latest missed time.
"""

from calendar import monthrange
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from bough.errors import Invalid
from bough.ids import BranchId, ProjectId

MIN_RETENTION_SECONDS, MAX_RETENTION_SECONDS = 3600, 3_024_000  # of a snapshot


class Frequency(StrEnum):
    HOURLY = "hourly"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"


_DAYS = {Frequency.WEEKLY: 7, Frequency.MONTHLY: 31}  # the largest allowed value
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
    day: int | None = None  # of the week, 1 is Monday; or of the month, at most its last day
    retention_seconds: int | None = None  # None: until they are deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSchedule:
    branch_id: BranchId
    project_id: ProjectId
    items: Sequence[ScheduleItem]
    next_at: datetime  # the first run that is not processed yet
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledSnapshot:
    """A snapshot that a schedule asks for."""

    frequency: Frequency
    at: datetime
    retention: timedelta | None  # None: without limit

    def name(self, branch_name: str) -> str:
        return f"{branch_name} {self.frequency} {self.at:%Y-%m-%d %H:%M}"


def check_schedule(items: Sequence[ScheduleItem]) -> None:
    for index, item in enumerate(items):
        _check_item(f"schedule[{index}]", item)
    keys = [_run_times_key(item) for item in items]
    if len(set(keys)) < len(keys):
        raise Invalid("schedule: two items run at the same times. Remove one of them.")


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
    """Return a key that is equal for items that run at the same times."""
    if item.frequency is Frequency.HOURLY:
        return item.frequency, None, None
    return item.frequency, item.hour, item.day if item.frequency in _DAYS else None


def count_retained(items: Iterable[ScheduleItem]) -> int:
    """Return how many snapshots exist at the same time in the long run. Items without a retention count as one."""
    return sum(-(-(item.retention_seconds or 1) // _SECONDS[item.frequency]) for item in items)


def list_due(items: Iterable[ScheduleItem], since: datetime, now: datetime) -> list[ScheduledSnapshot]:
    """Return for each item the latest run from `since` to now. Of two with the same time, the longer retention wins."""
    found: dict[tuple[Frequency, datetime], ScheduledSnapshot] = {}
    for item in items:
        at = last_run_at(item, now)
        if at < since:
            continue
        due = ScheduledSnapshot(frequency=item.frequency, at=at, retention=_retention(item))
        same = found.get((item.frequency, at))
        found[item.frequency, at] = due if same is None else max(same, due, key=_retention_or_max)
    return sorted(found.values(), key=lambda each: each.at)


def _retention(item: ScheduleItem) -> timedelta | None:
    return None if item.retention_seconds is None else timedelta(seconds=item.retention_seconds)


def _retention_or_max(due: ScheduledSnapshot) -> timedelta:
    return timedelta.max if due.retention is None else due.retention


def next_run_of_all(items: Iterable[ScheduleItem], now: datetime) -> datetime | None:
    """Return the first run after now; None for an empty schedule."""
    return min((next_run_at(item, now) for item in items), default=None)


def last_run_at(item: ScheduleItem, now: datetime) -> datetime:
    """Return the last run at or before now."""
    return max(at for at in _nearby_runs(item, now.astimezone(UTC)) if at <= now)


def next_run_at(item: ScheduleItem, now: datetime) -> datetime:
    """Return the first run after now."""
    return min(at for at in _nearby_runs(item, now.astimezone(UTC)) if at > now)


def _nearby_runs(item: ScheduleItem, now: datetime) -> list[datetime]:
    """Return the runs before and after now."""
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
    """Return the stored form."""
    return [{name: value for name, value in asdict(item).items() if value is not None} for item in items]


def decode_items(stored: Iterable[Mapping[str, Any]]) -> tuple[ScheduleItem, ...]:
    return tuple(ScheduleItem(**{**fields, "frequency": Frequency(fields["frequency"])}) for fields in stored)
