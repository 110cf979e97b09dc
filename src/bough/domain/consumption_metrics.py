"""The metrics of the consumption history: how each follows from the columns of a stored bucket.

The two versions of the API have different names for some of them. A bucket is given as a mapping of column names to
values, because a page contains thousands. Between the moment until which it is counted and its end, levels keep their
values.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bough.domain.consumption import FLOW_NAMES, LEVEL_NAMES, PEAK_NAMES, count_hour_borders
from bough.errors import Invalid

Row = Mapping[str, Any]

HOURS_PER_MONTH = 744  # of every month: 31 days
_HOUR = timedelta(hours=1)
_NO_FLOWS = dict.fromkeys(FLOW_NAMES, 0)
_NO_LEVEL_HOURS = dict.fromkeys([f"{name}_hours" for name in LEVEL_NAMES], 0.0)


def held_row(row: Row | None) -> Row:
    """Return a bucket without a row of its own: nothing was used, and the levels are those at the end of `row`."""
    levels = {name: row[name] if row else 0 for name in LEVEL_NAMES if row is None or name in row}
    peaks: dict[str, int] = {}
    for name in PEAK_NAMES:
        peaks |= {f"{name}_highest": levels.get(name, 0), f"{name}_past_hours": 0, f"{name}_last_hour": 0}
    return {**_NO_FLOWS, **levels, **_NO_LEVEL_HOURS, **peaks}


@dataclass(frozen=True, slots=True)
class Rest:
    """The time after the moment until which a bucket is counted."""

    hours: float
    begun_hours: int  # how many hours begin in it

    @classmethod
    def of(cls, until: datetime, end: datetime, *, is_held: bool) -> "Rest":
        """`is_held` if the bucket has no row, so that its first hour begins in this time, too."""
        if end <= until:
            return cls(0.0, 0)
        begun = count_hour_borders(until, end) - (end.minute == end.second == end.microsecond == 0)
        return cls((end - until) / _HOUR, begun + is_held)


@dataclass(frozen=True, slots=True)
class Metric(ABC):
    name: str

    @property
    @abstractmethod
    def columns(self) -> Sequence[str]:
        """The columns that the value is computed from."""

    @abstractmethod
    def compute(self, row: Row, rest: Rest) -> float: ...


@dataclass(frozen=True, slots=True)
class _Flow(Metric):
    added: tuple[str, ...]
    subtracted: tuple[str, ...] = ()

    @property
    def columns(self) -> Sequence[str]:
        return (*self.added, *self.subtracted)

    def compute(self, row: Row, rest: Rest) -> float:
        return float(sum([row[name] for name in self.added]) - sum([row[name] for name in self.subtracted]))


@dataclass(frozen=True, slots=True)
class _LevelHours(Metric):
    """A level multiplied by the hours for which it was held."""

    level: str
    divisor: int = 1

    @property
    def columns(self) -> Sequence[str]:
        return (self.level, f"{self.level}_hours")

    def compute(self, row: Row, rest: Rest) -> float:
        return float((row[f"{self.level}_hours"] + row[self.level] * rest.hours) / self.divisor)


@dataclass(frozen=True, slots=True)
class _Highest(Metric):
    """The highest value of a level."""

    level: str

    @property
    def columns(self) -> Sequence[str]:
        return (self.level, f"{self.level}_highest")

    def compute(self, row: Row, rest: Rest) -> float:
        return float(row[f"{self.level}_highest"])


@dataclass(frozen=True, slots=True)
class _PeakHours(Metric):
    """The sum of the highest values of each hour."""

    level: str

    @property
    def columns(self) -> Sequence[str]:
        peak = (f"{self.level}_highest", f"{self.level}_past_hours", f"{self.level}_last_hour")
        return (self.level, *peak)

    def compute(self, row: Row, rest: Rest) -> float:
        counted = row[f"{self.level}_past_hours"] + row[f"{self.level}_last_hour"]
        return float(counted + row[self.level] * rest.begun_hours)


_ACTIVE_TIME = _Flow("active_time_seconds", ("active_seconds",))
_COMPUTE_TIME = _Flow("compute_time_seconds", ("compute_seconds",))
_WRITTEN_DATA = _Flow("written_data_bytes", ("written_bytes",))
_STORED = _Highest("synthetic_storage_size_bytes", "stored_bytes")
STORED_HOURS_METRIC: Metric = _PeakHours("data_storage_bytes_hour", "stored_bytes")
_LOGICAL = _Highest("logical_size_bytes", "logical_bytes")
_LOGICAL_HOURS = _PeakHours("logical_size_bytes_hour", "logical_bytes")

# Every bucket of the first version contains these, whatever was asked for.
REQUIRED_METRICS: tuple[Metric, ...] = (_ACTIVE_TIME, _COMPUTE_TIME, _WRITTEN_DATA, _STORED)
ACCOUNT_METRICS: tuple[Metric, ...] = (*REQUIRED_METRICS, STORED_HOURS_METRIC)
PROJECT_METRICS: tuple[Metric, ...] = (*ACCOUNT_METRICS, _LOGICAL, _LOGICAL_HOURS)
BRANCH_METRICS_V2: tuple[Metric, ...] = (
    _Flow("compute_unit_seconds", ("compute_seconds",)),
    _LevelHours("root_branch_bytes_month", "root_bytes", HOURS_PER_MONTH),
    _LevelHours("child_branch_bytes_month", "child_bytes", HOURS_PER_MONTH),
    _LevelHours("instant_restore_bytes_month", "history_bytes", HOURS_PER_MONTH),
    _Flow("public_network_transfer_bytes", ("bytes_out",), ("private_out",)),
    _Flow("private_network_transfer_bytes", ("private_in", "private_out")),
)
PROJECT_METRICS_V2: tuple[Metric, ...] = (
    *BRANCH_METRICS_V2,
    _LevelHours("snapshot_storage_bytes_month", "snapshot_bytes", HOURS_PER_MONTH),
    _LevelHours("extra_branches_month", "child_branches"),
)


def select_metrics(names: Sequence[str], known: Sequence[Metric]) -> tuple[Metric, ...]:
    """Return the metrics in the order in which they were asked for, each once."""
    by_name = {metric.name: metric for metric in known}
    for name in names:
        if name not in by_name:
            raise Invalid(f"metrics: {name[:100]!r} is not known here. Metrics: {', '.join(by_name)}.")
    return tuple(by_name[name] for name in dict.fromkeys(names))
