"""How long metrics are kept at which resolution, and which resolution answers a query.

Times are seconds since 1970. An interval is named by its beginning.
"""

from dataclasses import dataclass

SAMPLE_SECONDS = 15
MINUTE = 60
HOUR = 3600
DAY = 86400
MAX_POINTS = 3000  # of one answer
DEFAULT_POINTS = 300  # at most, when the client leaves the step to us


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    step: int  # seconds of one point
    retention: int  # seconds
    chunk: int  # seconds whose points are stored in one row; samples have rows of their own


SAMPLES = Tier(step=SAMPLE_SECONDS, retention=HOUR, chunk=SAMPLE_SECONDS)
MINUTES = Tier(step=MINUTE, retention=2 * DAY, chunk=HOUR)
HOURS = Tier(step=HOUR, retention=30 * DAY, chunk=DAY)
ROLLED_UP_TIERS = (MINUTES, HOURS)
TIERS = (SAMPLES, *ROLLED_UP_TIERS)
_DEFAULT_STEPS = (15, 30, 60, 120, 300, 600, 1200, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR)
MAX_SECONDS = HOURS.retention + DAY  # of one query


class InvalidRange(ValueError):
    """The message tells the client what is possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRange:
    """What a query returns: the points that begin at `start`, `start + step` and so on, before `end`."""

    start: int
    end: int
    step: int

    @property
    def tier(self) -> Tier:
        """The coarsest one whose points can be combined to the steps of this range."""
        return next(tier for tier in reversed(TIERS) if self.step % tier.step == 0)

    @property
    def starts(self) -> range:
        return range(self.start, self.end, self.step)


def align(seconds: float, step: int) -> int:
    whole = int(seconds // 1)
    return whole - whole % step


def choose_range(start: float, end: float, step: int | None, now: float) -> MetricRange:
    """Round the range to whole steps, so that it covers what was asked for. Raise InvalidRange."""
    end = min(end, now)
    if start < 0:
        raise InvalidRange("'from' must not be before 1970.")
    if start >= end:
        raise InvalidRange("'from' must be before 'to' and before now.")
    if end - start > MAX_SECONDS:
        raise InvalidRange(f"The range is longer than the {MAX_SECONDS // DAY} days that metrics are kept.")
    step = step or _default_step(start, end, now)
    if step % SAMPLE_SECONDS or not 0 < step <= HOURS.retention:
        raise InvalidRange(f"'step' must be a multiple of {SAMPLE_SECONDS} seconds and at most {HOURS.retention}.")
    first = align(start, step)
    count = -(-(end - first) // step)
    if count > MAX_POINTS:
        raise InvalidRange(
            f"A step of {step} seconds gives more than {MAX_POINTS} points: use a larger step or a shorter range."
        )
    return MetricRange(start=first, end=first + int(count) * step, step=step)


def _default_step(start: float, end: float, now: float) -> int:
    """Return the finest step that still has points at `start` and does not give too many."""
    for step in _DEFAULT_STEPS:
        is_kept = now - start <= MetricRange(start=0, end=0, step=step).tier.retention
        if is_kept and (end - start) / step <= DEFAULT_POINTS:
            return step
    return DAY


def list_expiry(now: float) -> dict[int, int]:
    """Return, for each step, the moment before which its rows are deleted. A row is kept until all of it is too old."""
    return {tier.step: align(now, tier.step) - tier.retention - tier.chunk for tier in TIERS}
