"""What a bench file gives back: a promise, the figures behind it, and whether it was kept.

A sample is one round's measurement. Figures and ratios are medians over rounds, shown with the
smallest and the largest sample; a ratio is made round by round, so that a noisy moment of the
machine falls on both of its sides.
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
    """Something measured, in a unit. The median has to stay under `below` and over `above`, where they are given."""

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
        """The limit in words; empty when there is none."""
        limits = (("<", self.below), (">", self.above))
        return " and ".join(f"{sign} {limit:g} {self.unit}" for sign, limit in limits if limit is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Something that is so or is not."""

    name: str
    true: bool

    @property
    def is_kept(self) -> bool:
        return self.true


def make_ratio(
    name: str, over: Measurement, under: Measurement, below: float | None = None, above: float | None = None
) -> Measurement:
    """How many times `under` goes into `over`, round by round."""
    pairs = zip(over.samples, under.samples, strict=True)
    samples = tuple(one / other for one, other in pairs)
    return Measurement(name=name, unit="x", samples=samples, below=below, above=above)


def percentile(samples: Sequence[float], share: float) -> float:
    """The sample that `share` of all samples are not above."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    name: str
    sentence: str  # what is promised, in words
    measurements: tuple[Measurement, ...]
    ratios: tuple[Measurement, ...]
    checks: tuple[Check, ...] = ()
    how: tuple[str, ...]  # how ours was measured, line by line
    baseline: tuple[str, ...]  # the baseline's exact command and configuration, line by line

    @property
    def verdict(self) -> Verdict:
        parts: tuple[Measurement | Check, ...] = (*self.measurements, *self.ratios, *self.checks)
        rounds = [len(figure.samples) for figure in (*self.measurements, *self.ratios)]
        if min(rounds) < MIN_ROUNDS:
            raise ValueError(f"{self.name}: a promise needs {MIN_ROUNDS} rounds, and one figure has {min(rounds)}")
        return Verdict.KEPT if all(part.is_kept for part in parts) else Verdict.BROKEN
