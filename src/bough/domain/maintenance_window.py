"""The maintenance window of a project: when its computes may be restarted. Times are in UTC. Pure."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from bough.errors import Invalid

SETTINGS_KEY = "maintenance_window"
MIN_MINUTES = 60
_DAY_MINUTES = 24 * 60
_STEP_MINUTES = 15  # between the starts of default windows
_CLOCK_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartWindow:
    weekdays: tuple[int, ...]  # 1 is Monday; sorted
    start_minute: int  # of the day
    end_minute: int  # of the same day; 1440 is its end

    @classmethod
    def parse(cls, weekdays: Sequence[int], start_time: str, end_time: str) -> Self:
        """Raise Invalid for a window that breaks a rule."""
        start, end = _parse_time(start_time), _parse_time(end_time) or _DAY_MINUTES
        if not weekdays or not all(1 <= day <= 7 for day in weekdays):
            raise Invalid("maintenance_window.weekdays: name at least one day, 1 (Monday) to 7 (Sunday).")
        if end <= start:
            raise Invalid(
                "maintenance_window: end_time must be later on the same day than start_time; 00:00 as end_time is the "
                "end of the day."
            )
        if end - start < MIN_MINUTES:
            raise Invalid("maintenance_window: the window must be at least one hour long.")
        return cls(weekdays=tuple(sorted(set(weekdays))), start_minute=start, end_minute=end)

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> Self | None:
        """Return the window in the settings of a project; None if an earlier version stored an invalid one."""
        stored = settings.get(SETTINGS_KEY)
        try:
            return cls.parse(stored["weekdays"], stored["start_time"], stored["end_time"]) if stored else None
        except (Invalid, KeyError, TypeError):
            return None

    def to_settings(self) -> dict[str, Any]:
        return {
            "weekdays": list(self.weekdays),
            "start_time": _format_time(self.start_minute),
            "end_time": _format_time(self.end_minute % _DAY_MINUTES),
        }

    @property
    def length(self) -> timedelta:
        return timedelta(minutes=self.end_minute - self.start_minute)

    def next_start(self, earliest: datetime) -> datetime:
        """Return the first start at this time or later."""
        midnight = earliest.replace(hour=0, minute=0, second=0, microsecond=0)
        days = (midnight + timedelta(days=number) for number in range(8))
        starts = (day + timedelta(minutes=self.start_minute) for day in days if day.isoweekday() in self.weekdays)
        return next(start for start in starts if start >= earliest)

    def contains(self, moment: datetime) -> bool:
        """Return whether computes may be restarted at this moment; the end is excluded."""
        minute = moment.hour * 60 + moment.minute
        return moment.isoweekday() in self.weekdays and self.start_minute <= minute < self.end_minute


def choose_default(project_id: str, weekdays: Sequence[int], hours: tuple[int, int]) -> RestartWindow:
    """Return an hour within `hours` on one of the weekdays; the id of the project decides which.

    So not all projects of a machine are restarted in the same minute.
    """
    first, last = hours[0] * 60, hours[1] * 60 - MIN_MINUTES
    starts = range(first, last + 1, _STEP_MINUTES)
    number = int.from_bytes(hashlib.sha256(project_id.encode()).digest()[:8])
    day, start = weekdays[number % len(weekdays)], starts[number // len(weekdays) % len(starts)]
    return RestartWindow(weekdays=(day,), start_minute=start, end_minute=start + MIN_MINUTES)


def _parse_time(text: str) -> int:
    found = _CLOCK_TIME.fullmatch(text)
    if found is None:
        raise Invalid(f"maintenance_window: {text!r} is not a time: write it as HH:MM, for example 03:00.")
    return int(found[1]) * 60 + int(found[2])


def _format_time(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
