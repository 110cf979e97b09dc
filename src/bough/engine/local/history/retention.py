"""What of a volume's history has to stay: for moments since then, and for the volumes that stand on it. Pure.

A volume that has no base of its own from before it went its own way stands on the one it was cloned from: it needs
that one's newest base from before, and the WAL from there to where its own begins. Whether it still does is noted
with it, so that one volume can be cleared while nothing else is known of the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic

from bough.domain import lsn
from bough.engine.local.history.recovery_plan import B, VolumeLineage
from bough.ids import VolumeId
from bough.postgres import wal


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageNode(Generic[B]):
    """A volume's life, and what it stands on."""

    lineage: VolumeLineage[B]
    parent: VolumeId | None = None  # None: its install's template
    forked_at: datetime | None = None  # when it went its own way
    is_self_contained: bool = False  # it stands on nothing

    @property
    def is_dependent(self) -> bool:
        return not self.is_self_contained and self.lineage.first_segment is not None


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """Numbers of segments."""

    first: int
    last: int | None = None  # None: to the end


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedHistory(Generic[B]):
    bases: Sequence[B]
    ranges: Sequence[SegmentRange]
    is_self_contained: bool  # from now on nothing before its own bases is needed
    has_dependents: bool  # another volume needs some of it

    def retains(self, segment: str) -> bool:
        number = wal.segment_number(segment)
        return any(each.first <= number and (each.last is None or number <= each.last) for each in self.ranges)


def compute_retention(
    volume: VolumeId, nodes: Mapping[VolumeId, LineageNode[B]], since: datetime | None
) -> RetainedHistory[B]:
    """`since` is the first moment that is wanted of the volume itself; None: nobody goes back in it."""
    kin = nodes[volume]
    life = kin.lineage
    anchor = next((base for base in reversed(life.bases) if since is not None and base.at <= since), None)
    kept, ranges = _retain_own(kin, since, anchor)
    goes_further = False
    stood_on = False
    for fork in _forks(volume, _dependents_by_parent(nodes)):
        usable = [base for base in life.bases if fork.is_after(base)]
        if usable:
            kept.append(usable[-1])
            ranges.append(SegmentRange(wal.segment_number(usable[-1].first_segment), fork.first_number - 1))
        elif kin.is_dependent:
            ranges.append(SegmentRange(life.first_segment_number, fork.first_number - 1))
            goes_further = True
        else:
            continue
        stood_on = True
    return RetainedHistory(
        bases=[base for base in life.bases if base in kept],
        ranges=ranges,
        is_self_contained=kin.is_self_contained or ((since is None or anchor is not None) and not goes_further),
        has_dependents=stood_on,
    )


def _retain_own(kin: LineageNode[B], since: datetime | None, anchor: B | None) -> tuple[list[B], list[SegmentRange]]:
    """For moments of its own. Where it cannot be gone back to before its first base, WAL from before is of no use."""
    bases = kin.lineage.bases
    if since is None:
        return [], []
    if anchor is not None:
        return [*bases[bases.index(anchor) :]], [SegmentRange(wal.segment_number(anchor.first_segment))]
    if kin.is_dependent:
        return [*bases], [SegmentRange(kin.lineage.first_segment_number)]
    return [*bases], [SegmentRange(wal.segment_number(bases[0].first_segment) if bases else 0)]


@dataclass(frozen=True, slots=True)
class _Fork:
    """Where somebody who stands on a volume went its own way, or one that he stands on did."""

    position: int
    at: datetime | None
    first_number: int  # from here on somebody else has the WAL

    def is_after(self, base: B) -> bool:
        return lsn.to_int(base.lsn) <= self.position and (self.at is None or base.at <= self.at)


def _forks(volume: VolumeId, standing: Mapping[VolumeId, Sequence[LineageNode[B]]]) -> Iterator[_Fork]:
    for child in standing.get(volume, ()):
        fork = _Fork(child.lineage.fork_position, child.forked_at, child.lineage.first_segment_number)
        yield fork
        for further in _forks(child.lineage.volume, standing):
            moments = [at for at in (fork.at, further.at) if at is not None]
            yield _Fork(min(fork.position, further.position), min(moments, default=None), fork.first_number)


def _dependents_by_parent(family: Mapping[VolumeId, LineageNode[B]]) -> dict[VolumeId, list[LineageNode[B]]]:
    """Those that stand on another volume, by that volume."""
    found: dict[VolumeId, list[LineageNode[B]]] = {}
    for kin in family.values():
        if kin.parent is not None and kin.is_dependent:
            found.setdefault(kin.parent, []).append(kin)
    return found
