"""Plans a recovery: from which base to start, and which WAL to replay. Pure.

A volume without a base before the point depends on the volume it was cloned from, and a branch without a parent on
the template of its install. Where a lineage forks in the middle of a segment, its own first segment holds that segment
from its beginning. So a segment number below the first one of a lineage means a file of its ancestor, and any other
number a file of its own.
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
    """Data that a recovery can start from: a base or a template."""

    @property
    def lsn(self) -> str:
        """The first LSN at which recovery can stop."""

    @property
    def at(self) -> datetime:
        """The first time at which recovery can stop."""

    @property
    def first_segment(self) -> str:
        """The first segment that the server reads."""


StartT = TypeVar("StartT", bound=RecoveryStart)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeLineage(Generic[StartT]):
    """What is known about one volume as a writer of WAL."""

    volume: VolumeId
    first_segment: str | None  # of its own WAL; None if nothing is known from before its first base
    fork_lsn: str | None = None  # up to here its WAL is its ancestor's
    bases: Sequence[StartT] = ()  # oldest first

    @property
    def first_segment_number(self) -> int:
        return 0 if self.first_segment is None else wal.segment_number(self.first_segment)

    @property
    def fork_position(self) -> int:
        """Return the position up to which its WAL is its ancestor's: of a killed parent, the start of the segment."""
        return self.first_segment_number * wal.SEGMENT_BYTES if self.fork_lsn is None else lsn.to_int(self.fork_lsn)

    @property
    def timeline(self) -> int:
        """A lineage has one timeline, because every point-in-time recovery starts a new lineage."""
        known = self.first_segment or next((base.first_segment for base in self.bases), None)
        return wal.timeline_of(known) if known else 1


@dataclass(frozen=True, slots=True)
class WalRange:
    """A range of segments of one volume."""

    volume: VolumeId
    timeline: int
    first: int
    last: int | None  # None: up to the last segment there is

    @property
    def is_empty(self) -> bool:
        return self.last is not None and self.last < self.first


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPlan(Generic[StartT]):
    start: StartT
    ranges: Sequence[WalRange]  # oldest first; none is empty
    timeline: int | None  # the target timeline; None: the one that the recovery starts on
    volumes: Sequence[VolumeId]  # of the lineages, youngest first
    timelines: frozenset[int]  # of the lineages, where there is a history file


def plan_recovery(
    lineages: Sequence[VolumeLineage[StartT]], template: StartT | None, point: Point
) -> list[RecoveryPlan[StartT]]:
    """Return every plan that reaches the point, the shortest first.

    `lineages` are the volume's own and those of its ancestors, youngest first.
    """
    plans: list[RecoveryPlan[StartT]] = []
    for depth in range(len(lineages)):
        used = lineages[: depth + 1]
        plans += [_plan(used, base, point) for base in reversed(_usable_bases(used, point))]
        if lineages[depth].first_segment is None:
            return plans
    if template is not None and _is_before(template, point):
        plans.append(_plan(lineages, template, point))
    return plans


def _usable_bases(lineages: Sequence[VolumeLineage[StartT]], point: Point) -> list[StartT]:
    """Return the bases of the oldest lineage that are before the point and before every fork."""
    fork = min((lineage.fork_position for lineage in lineages[:-1]), default=None)
    return [
        base
        for base in lineages[-1].bases
        if _is_before(base, point) and (fork is None or lsn.to_int(base.lsn) <= fork)
    ]


def _is_before(base: RecoveryStart, point: Point) -> bool:
    if point.lsn is not None and lsn.to_int(base.lsn) > lsn.to_int(point.lsn):
        return False
    return point.at is None or base.at <= point.at


def _plan(lineages: Sequence[VolumeLineage[StartT]], start: StartT, point: Point) -> RecoveryPlan[StartT]:
    last = _last_number(lineages[0], point)
    start_number = wal.segment_number(start.first_segment)
    ranges: list[WalRange] = []
    for lineage in lineages:  # youngest first: segments below its first one are its ancestor's
        is_oldest = lineage is lineages[-1]
        first = start_number if is_oldest else max(start_number, lineage.first_segment_number)
        ranges.insert(0, WalRange(lineage.volume, lineage.timeline, first, last))
        last = first - 1 if last is None else min(last, first - 1)
    timeline = lineages[0].timeline
    keeps_timeline = timeline == wal.timeline_of(start.first_segment)
    return RecoveryPlan(
        start=start,
        ranges=[each for each in ranges if not each.is_empty],
        timeline=None if keeps_timeline else timeline,
        volumes=[lineage.volume for lineage in lineages],
        timelines=frozenset(lineage.timeline for lineage in lineages if lineage.timeline > 1),
    )


def _last_number(lineage: VolumeLineage[StartT], point: Point) -> int | None:
    """Return the number of the last segment that the point may need; None if it is unknown.

    All that was committed before a base was taken was written before the next base started.
    """
    if point.lsn is not None:
        return wal.segment_number_at(lsn.to_int(point.lsn))
    if point.at is not None:
        later = [base for base in lineage.bases if base.at > point.at]
        return wal.segment_number(later[1].first_segment) if len(later) > 1 else None
    return None
