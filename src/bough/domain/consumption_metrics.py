"""The metrics of the consumption history: how each follows from the columns of a stored bucket.

The two versions of the API have different names for some of them. Between the moment until which a bucket is counted
and its end, amounts keep their values. A page contains thousands of buckets, so metrics are compiled to functions of
the positions of columns.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bough.domain.consumption import AMOUNT_NAMES, PEAK_NAMES
from bough.errors import Invalid

HOURS_PER_MONTH = 744  # of every month: 31 days
_HOUR = 3_600_000_000  # microseconds

# A bucket as it is stored: its start, the moment until which it is counted, both in microseconds since 1970, and the
# columns of the evaluator.
StoredBucket = Sequence[Any]
START, UNTIL, FIRST_COLUMN = 0, 1, 2
Column = Sequence[float]  # the values of many buckets
Compute = Callable[[StoredBucket, float, int], float]  # of the hours of the rest, and how many begin in it


class Rest(NamedTuple):
    """The time after the moment until which a bucket is counted."""

    hours: float
    begun_hours: int  # how many hours begin in it

    @classmethod
    def of(cls, until: int, end: int, *, is_held: bool) -> "Rest":
        """Both in microseconds. `is_held` if the bucket has no row: then its first hour begins in this time, too."""
        if end <= until:
            return NO_REST
        begun = end // _HOUR - until // _HOUR - (end % _HOUR == 0)
        return cls((end - until) / _HOUR, begun + is_held)


NO_REST = Rest(0.0, 0)


@dataclass(frozen=True, slots=True)
class Metric(ABC):
    name: str

    @property
    @abstractmethod
    def columns(self) -> Sequence[str]:
        """The columns that the value is computed from."""

    @property
    def is_whole(self) -> bool:
        """Whether all values are whole numbers, which must not be rounded as floating-point numbers."""
        return False

    @abstractmethod
    def compile(self, positions: Mapping[str, int]) -> Compute: ...

    @abstractmethod
    def compute_closed(self, columns: Mapping[str, Column]) -> Column:
        """Return the values of many buckets that are counted until their ends, from their columns."""


@dataclass(frozen=True, slots=True)
class _Flow(Metric):
    added: tuple[str, ...]
    subtracted: tuple[str, ...] = ()

    @property
    def columns(self) -> Sequence[str]:
        return (*self.added, *self.subtracted)

    @property
    def is_whole(self) -> bool:
        return not any(name.endswith("_seconds") for name in self.columns)

    def compute_closed(self, columns: Mapping[str, Column]) -> Column:
        if len(self.columns) == 1:
            return columns[self.added[0]]
        added = map(sum, zip(*(columns[name] for name in self.added), strict=True))
        if not self.subtracted:
            return list(added)
        subtracted = map(sum, zip(*(columns[name] for name in self.subtracted), strict=True))
        return [more - less for more, less in zip(added, subtracted, strict=True)]

    def compile(self, positions: Mapping[str, int]) -> Compute:
        added = [positions[name] for name in self.added]
        subtracted = [positions[name] for name in self.subtracted]
        if len(added) == 1 and not subtracted:
            first = added[0]
            return lambda bucket, _hours, _begun: bucket[first]
        return lambda bucket, _hours, _begun: (
            sum([bucket[each] for each in added]) - sum([bucket[each] for each in subtracted])
        )


@dataclass(frozen=True, slots=True)
class _AmountHours(Metric):
    """An amount multiplied by the hours for which it was held."""

    amount: str
    divisor: int = 1

    @property
    def columns(self) -> Sequence[str]:
        return (self.amount, f"{self.amount}_hours")

    def compute_closed(self, columns: Mapping[str, Column]) -> Column:
        divisor = self.divisor
        return [hours / divisor for hours in columns[f"{self.amount}_hours"]]

    def compile(self, positions: Mapping[str, int]) -> Compute:
        amount, counted = (positions[name] for name in self.columns)
        divisor = self.divisor
        return lambda bucket, hours, _begun: (bucket[counted] + bucket[amount] * hours) / divisor


@dataclass(frozen=True, slots=True)
class _Highest(Metric):
    """The highest value of an amount."""

    amount: str

    @property
    def columns(self) -> Sequence[str]:
        return (self.amount, f"{self.amount}_highest")

    @property
    def is_whole(self) -> bool:
        return True

    def compute_closed(self, columns: Mapping[str, Column]) -> Column:
        return columns[f"{self.amount}_highest"]

    def compile(self, positions: Mapping[str, int]) -> Compute:
        highest = positions[f"{self.amount}_highest"]
        return lambda bucket, _hours, _begun: bucket[highest]


@dataclass(frozen=True, slots=True)
class _PeakHours(Metric):
    """The sum of the highest values of each hour."""

    amount: str

    @property
    def columns(self) -> Sequence[str]:
        return (self.amount, f"{self.amount}_past_hours", f"{self.amount}_last_hour")

    @property
    def is_whole(self) -> bool:
        return True

    def compute_closed(self, columns: Mapping[str, Column]) -> Column:
        past, last = (columns[name] for name in self.columns[1:])
        return [past_hours + last_hour for past_hours, last_hour in zip(past, last, strict=True)]

    def compile(self, positions: Mapping[str, int]) -> Compute:
        amount, past, last = (positions[name] for name in self.columns)
        return lambda bucket, _hours, begun: bucket[past] + bucket[last] + bucket[amount] * begun


class Evaluator:
    """Computes several metrics of stored buckets."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self.metrics = tuple(metrics)
        self.columns = tuple(sorted({name for metric in metrics for name in metric.columns}))
        positions = {name: position for position, name in enumerate(self.columns, FIRST_COLUMN)}
        self._functions = [metric.compile(positions) for metric in metrics]
        self._held = [positions.get(_held_from(name)) for name in self.columns]

    def compute_closed(self, buckets: Sequence[StoredBucket]) -> list[Sequence[float]]:
        """Return the values of many buckets, as if they were counted until their ends. Fast."""
        if not buckets:
            return []
        by_column = list(zip(*buckets, strict=True))
        columns = dict(zip(self.columns, by_column[FIRST_COLUMN:], strict=False))
        return list(zip(*(metric.compute_closed(columns) for metric in self.metrics), strict=True))

    def compute(self, bucket: StoredBucket, rest: Rest) -> Sequence[float]:
        hours, begun = rest
        return [function(bucket, hours, begun) for function in self._functions]

    def hold(self, bucket: StoredBucket) -> StoredBucket:
        """Return a later bucket that is not stored: nothing was used, and amounts are the last ones."""
        return [None, None, *(0 if position is None else bucket[position] for position in self._held)]

    def nothing(self) -> StoredBucket:
        return [None, None, *[0] * len(self.columns)]


def _held_from(column: str) -> str:
    """Return the column whose last value a column has while amounts are held."""
    if column in AMOUNT_NAMES:
        return column
    return next((name for name in PEAK_NAMES if column == f"{name}_highest"), "")


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
    _AmountHours("root_branch_bytes_month", "root_bytes", HOURS_PER_MONTH),
    _AmountHours("child_branch_bytes_month", "child_bytes", HOURS_PER_MONTH),
    _AmountHours("instant_restore_bytes_month", "history_bytes", HOURS_PER_MONTH),
    _Flow("public_network_transfer_bytes", ("bytes_out",), ("private_out",)),
    _Flow("private_network_transfer_bytes", ("private_in", "private_out")),
)
PROJECT_METRICS_V2: tuple[Metric, ...] = (
    *BRANCH_METRICS_V2,
    _AmountHours("snapshot_storage_bytes_month", "snapshot_bytes", HOURS_PER_MONTH),
    _AmountHours("extra_branches_month", "child_branches"),
)


def select_metrics(names: Sequence[str], known: Sequence[Metric]) -> tuple[Metric, ...]:
    """Return the metrics in the order in which they were asked for, each once."""
    by_name = {metric.name: metric for metric in known}
    for name in names:
        if name not in by_name:
            raise Invalid(f"metrics: {name[:100]!r} is not known here. Metrics: {', '.join(by_name)}.")
    return tuple(by_name[name] for name in dict.fromkeys(names))
