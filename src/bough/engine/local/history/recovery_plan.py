"""How a point of a volume's life is reached: from which base, and with which WAL. Pure.

A volume without a base that is early enough stands on the one it was cloned from, and a branch of nothing on its
install's template. Where a life begins in the middle of the WAL of another, its own files hold that segment from the
beginning, so that a number below its first segment means its ancestor's file and any other number its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from bough.domain import lsn
from bough.domain.history import Point
from bough.ids import VolumeId
from bough.postgres import wal


class RecoveryStart(Protocol):
    """Data that a server can begin with: a base, or a template."""

    @property
    def lsn(self) -> str:
        """From here on it can be stopped at any record."""

    @property
    def at(self) -> datetime:
        """From here on it can be stopped at any commit."""

    @property
    def first_segment(self) -> str:
        """Where it begins to read."""


B = TypeVar("B", bound=RecoveryStart)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeLineage(Generic[B]):
    """One volume's life as a writer, as far as it is known."""

    volume: VolumeId
    first_segment: str | None  # of its own WAL; None: what was before its bases is not known
    fork_lsn: str | None = None  # how far it goes with its ancestor's life
    bases: Sequence[B] = ()  # oldest first

    @property
    def first_segment_number(self) -> int:
        return 0 if self.first_segment is None else wal.segment_number(self.first_segment)

    @property
    def fork_position(self) -> int:
        """Up to here its ancestor's WAL is its own. Of one whose end nobody knew: up to the segment it was in."""
        return self.first_segment_number * wal.SEGMENT_BYTES if self.fork_lsn is None else lsn.to_int(self.fork_lsn)

    @property
    def timeline(self) -> int:
        """A life has one: every recovery to a point begins another life."""
        known = self.first_segment or next((base.first_segment for base in self.bases), None)
        return wal.timeline_of(known) if known else 1


@dataclass(frozen=True, slots=True)
class WalRange:
    """WAL that one volume has."""

    volume: VolumeId
    timeline: int
    first: int  # number of a segment
    last: int | None  # None: to the end

    @property
    def is_empty(self) -> bool:
        return self.last is not None and self.last < self.first


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPlan(Generic[B]):
    start: B
    ranges: Sequence[WalRange]  # oldest first; none is empty
    timeline: int | None  # to be gone to; None: it stays on the one that it begins with
    volumes: Sequence[VolumeId]  # whose lives it goes through, the youngest first
    timelines: frozenset[int]  # on the way, which have a file that says where they begin


def plan_recovery(lineages: Sequence[VolumeLineage[B]], template: B | None, point: Point) -> list[RecoveryPlan[B]]:
    """Every way to the point, the shortest first. The lives are the volume's own and those of its ancestors."""
    found: list[RecoveryPlan[B]] = []
    for depth in range(len(lineages)):
        found += [_plan(lineages[: depth + 1], base, point) for base in reversed(_usable(lineages[: depth + 1], point))]
        if lineages[depth].first_segment is None:
            return found
    if template is not None and _is_before(template, point):
        found.append(_plan(lineages, template, point))
    return found


def _usable(lives: Sequence[VolumeLineage[B]], point: Point) -> list[B]:
    """Bases of the oldest of the lives that are before the point, and before each of the others went its own way."""
    forks = min((life.fork_position for life in lives[:-1]), default=None)
    return [
        base for base in lives[-1].bases if _is_before(base, point) and (forks is None or lsn.to_int(base.lsn) <= forks)
    ]


def _is_before(base: RecoveryStart, point: Point) -> bool:
    if point.lsn is not None and lsn.to_int(base.lsn) > lsn.to_int(point.lsn):
        return False
    return point.at is None or base.at <= point.at


def _plan(lives: Sequence[VolumeLineage[B]], begins: B, point: Point) -> RecoveryPlan[B]:
    last = _last_number(lives[0], point)
    first = wal.segment_number(begins.first_segment)
    stretches: list[WalRange] = []
    for life in lives:  # the youngest first: each leaves to the next what is below its first
        is_oldest = life is lives[-1]
        from_here = first if is_oldest else max(first, life.first_segment_number)
        stretches.insert(0, WalRange(life.volume, life.timeline, from_here, last))
        last = from_here - 1 if last is None else min(last, from_here - 1)
    wanted = [stretch for stretch in stretches if not stretch.is_empty]
    timeline = lives[0].timeline
    stays = timeline == wal.timeline_of(begins.first_segment)
    return RecoveryPlan(
        start=begins,
        ranges=wanted,
        timeline=None if stays else timeline,
        volumes=[life.volume for life in lives],
        timelines=frozenset(life.timeline for life in lives if life.timeline > 1),
    )


def _last_number(life: VolumeLineage[B], point: Point) -> int | None:
    """The last segment that can matter; None when that is not known.

    When a base was made after a moment, all that was committed by then was written before the next base began.
    """
    if point.lsn is not None:
        return wal.segment_number_at(lsn.to_int(point.lsn))
    if point.at is not None:
        later = [base for base in life.bases if base.at > point.at]
        return wal.segment_number(later[1].first_segment) if len(later) > 1 else None
    return None
