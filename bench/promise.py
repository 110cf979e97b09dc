"""The result of a bench module: a promise, its measurements, and whether it was kept.

A sample is the value of one round. Measurements and ratios are medians over rounds, shown with the smallest and the
largest sample. A ratio is computed round by round, so that noise of the machine affects both of its sides.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

MIN_ROUNDS = 5


class Verdict(StrEnum):
    KEPT = "kept"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A measured quantity. The median must be less than `below` and greater than `above`, if these are set."""

    name: str
    unit: str
    samples: tuple[float, ...]
    below: float | None = None
    above: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def smallest(self) -> float:
        return min(self.samples)

    @property
    def largest(self) -> float:
        return max(self.samples)

    @property
    def is_kept(self) -> bool:
        is_over = self.above is None or self.median > self.above
        return is_over and (self.below is None or self.median < self.below)

    @property
    def limit_text(self) -> str:
        """The limit as text; empty if there is none."""
        limits = (("<", self.below), (">", self.above))
        return " and ".join(f"{sign} {limit:g} {self.unit}" for sign, limit in limits if limit is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A condition that must hold."""

    name: str
    true: bool

    @property
    def is_kept(self) -> bool:
        return self.true


def make_ratio(
    name: str, over: Measurement, under: Measurement, below: float | None = None, above: float | None = None
) -> Measurement:
    """Divide `over` by `under`, round by round."""
    pairs = zip(over.samples, under.samples, strict=True)
    samples = tuple(one / other for one, other in pairs)
    return Measurement(name=name, unit="x", samples=samples, below=below, above=above)


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that is not exceeded by `share` of all samples."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    name: str
    sentence: str  # the promise in one sentence
    measurements: tuple[Measurement, ...]
    ratios: tuple[Measurement, ...]
    checks: tuple[Check, ...] = ()
    how: tuple[str, ...]  # how Bough was measured
    baseline: tuple[str, ...]  # the exact commands and configuration of the baseline

    @property
    def verdict(self) -> Verdict:
        parts: tuple[Measurement | Check, ...] = (*self.measurements, *self.ratios, *self.checks)
        rounds = [len(figure.samples) for figure in (*self.measurements, *self.ratios)]
        if min(rounds) < MIN_ROUNDS:
            raise ValueError(f"{self.name}: a promise needs {MIN_ROUNDS} rounds, but a measurement has {min(rounds)}")
        return Verdict.KEPT if all(part.is_kept for part in parts) else Verdict.BROKEN
