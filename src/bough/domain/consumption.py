"""The consumption of a branch or project in one bucket: an hour, a day or a month, in UTC.

A bucket adds up what flowed (seconds, bytes) and integrates what was stored: amounts such as the size of data last
until they change, so that a branch that nobody uses needs no new buckets.
"""

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from bough.domain.calendar_month import start_of_month, start_of_next_month

_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Granularity(StrEnum):
    HOURLY = "hourly"
    DAILY = "daily"
    MONTHLY = "monthly"

    def start_of(self, moment: datetime) -> datetime:
        """Return the start of the bucket that contains the moment."""
        if self is Granularity.MONTHLY:
            return start_of_month(moment)
        hour = moment.replace(minute=0, second=0, microsecond=0)
        return hour.replace(hour=0) if self is Granularity.DAILY else hour

    def end_of(self, start: datetime) -> datetime:
        """Return the end of the bucket that begins at `start`."""
        if self is Granularity.MONTHLY:
            return start_of_next_month(start)
        return start + (_DAY if self is Granularity.DAILY else _HOUR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flows:
    """What was used during some time."""

    active_seconds: float = 0.0  # while computes ran, added up over computes
    compute_seconds: float = 0.0  # active_seconds times the size in CU
    cpu_seconds: float = 0.0  # CPU time of processes
    bytes_in: int = 0  # from clients
    bytes_out: int = 0  # to clients
    private_in: int = 0  # the part of bytes_in that came over private networks
    private_out: int = 0  # the part of bytes_out that went over private networks
    written_bytes: int = 0  # WAL

    def __add__(self, other: "Flows") -> "Flows":
        return Flows(**{name: getattr(self, name) + getattr(other, name) for name in FLOW_NAMES})


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """What is stored at a moment."""

    root_bytes: int = 0  # logical size of root branches
    child_bytes: int = 0  # of each child branch the smaller of its logical size and what it wrote since its creation
    history_bytes: int = 0  # WAL and bases that are kept to go back
    snapshot_bytes: int = 0  # manual snapshots and the first scheduled one in full, others as far as they differ
    child_branches: int = 0
    stored_bytes: int = 0  # data and history together, and what only snapshots contain
    logical_bytes: int = 0  # logical size of all branches

    def __add__(self, other: "Amounts") -> "Amounts":
        return Amounts(**{name: getattr(self, name) + getattr(other, name) for name in AMOUNT_NAMES})

    def __sub__(self, other: "Amounts") -> "Amounts":
        return Amounts(**{name: getattr(self, name) - getattr(other, name) for name in AMOUNT_NAMES})


FLOW_NAMES = tuple(each.name for each in fields(Flows))
AMOUNT_NAMES = tuple(each.name for each in fields(Amounts))
PEAK_NAMES = ("stored_bytes", "logical_bytes")  # amounts of which the highest value of each hour counts


@dataclass(frozen=True, slots=True)
class Peak:
    """The highest values of an amount, until the moment until which its bucket is counted."""

    highest: int = 0  # in the bucket
    past_hours: int = 0  # the sum of the highest values of its hours before the last one
    last_hour: int = 0  # the highest value in the last hour

    def advance(self, amount: int, since: datetime, until: datetime, now_amount: int) -> "Peak":
        """Hold `amount` from `since` until `until`, when it becomes `now_amount`."""
        held = self.hold(amount, count_hour_borders(since, until))
        return Peak(max(held.highest, now_amount), held.past_hours, max(held.last_hour, now_amount))

    def hold(self, amount: int, begun_hours: int) -> "Peak":
        """Hold an amount while so many hours begin."""
        if not begun_hours:
            return self
        return Peak(self.highest, self.past_hours + self.last_hour + (begun_hours - 1) * amount, amount)


def to_microseconds(moment: datetime) -> int:
    """Return the time since 1970, which is faster to compute with."""
    return (moment - _EPOCH) // _MICROSECOND


def count_hour_borders(since: datetime, until: datetime) -> int:
    """Return how many hours begin after `since`, until and including `until`."""
    partial = timedelta(minutes=since.minute, seconds=since.second, microseconds=since.microsecond)
    return (until - since + partial) // _HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    start: datetime
    until: datetime  # the amounts are integrated until then, and have their present values since then
    flows: Flows = Flows()
    amounts: Amounts = Amounts()
    amount_hours: tuple[float, ...] = (0.0,) * len(AMOUNT_NAMES)  # amounts times hours, in the order of AMOUNT_NAMES
    peaks: tuple[Peak, ...] = (Peak(),) * len(PEAK_NAMES)

    @classmethod
    def begin(cls, start: datetime, at: datetime, amounts: Amounts) -> "Bucket":
        """Return a bucket whose amounts are counted from `at`, where nothing has been used yet."""
        peaks = tuple(Peak(value, 0, value) for value in (getattr(amounts, name) for name in PEAK_NAMES))
        return cls(start=start, until=at, amounts=amounts, peaks=peaks)

    def set_amounts(self, at: datetime, amounts: Amounts) -> "Bucket":
        """Change the amounts at a moment inside the bucket. After the clock was set back, no time is counted twice."""
        until = max(at, self.until)
        hours = (until - self.until) / _HOUR
        held = [getattr(self.amounts, name) for name in AMOUNT_NAMES]
        return replace(
            self,
            until=until,
            amounts=amounts,
            amount_hours=tuple(sum_ + amount * hours for sum_, amount in zip(self.amount_hours, held, strict=True)),
            peaks=tuple(
                peak.advance(getattr(self.amounts, name), self.until, until, getattr(amounts, name))
                for name, peak in zip(PEAK_NAMES, self.peaks, strict=True)
            ),
        )

    def add_flows(self, flows: Flows) -> "Bucket":
        return replace(self, flows=self.flows + flows)

    def close(self, end: datetime) -> "Bucket":
        """Hold the amounts until the end of the bucket, so that a reader need not."""
        if self.until >= end:
            return self
        hours, begun = (end - self.until) / _HOUR, count_hour_borders(self.until, end) - 1
        return replace(
            self,
            until=end,
            amount_hours=tuple(
                sum_ + getattr(self.amounts, name) * hours
                for name, sum_ in zip(AMOUNT_NAMES, self.amount_hours, strict=True)
            ),
            peaks=tuple(
                peak.hold(getattr(self.amounts, name), begun) for name, peak in zip(PEAK_NAMES, self.peaks, strict=True)
            ),
        )


def record(newest: Bucket, granularity: Granularity, at: datetime, flows: Flows, amounts: Amounts) -> list[Bucket]:
    """Return the buckets to store after `flows` were used until `at`, when the amounts became `amounts`.

    `newest` is the newest bucket, which does not begin after `at`. If another one begins, it is closed and comes first.
    """
    start = granularity.start_of(at)
    if newest.start == start:
        return [newest.set_amounts(at, amounts).add_flows(flows)]
    closed = newest.close(granularity.end_of(newest.start))
    return [closed, Bucket.begin(start, start, newest.amounts).set_amounts(at, amounts).add_flows(flows)]
