"""Computes which bases and WAL of a volume must be retained, for itself and for the volumes that depend on it. Pure.

A volume without a base from before its fork depends on the volume it was cloned from: on that volume's newest base
before the fork, and on the WAL from there to its own first segment. Its record says whether it still does, so a
volume can be pruned without knowing more about the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic

from bough.domain import lsn
from bough.engine.local.history.recovery_plan import StartT, VolumeLineage
from bough.ids import VolumeId
from bough.postgres import wal


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageNode(Generic[StartT]):
    """A lineage and what it depends on."""

    lineage: VolumeLineage[StartT]
    parent: VolumeId | None = None  # None: the template of its install
    forked_at: datetime | None = None
    is_self_contained: bool = False  # it depends on no other volume

    @property
    def is_dependent(self) -> bool:
        return not self.is_self_contained and self.lineage.first_segment is not None


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """Segment numbers, both ends included."""

    first: int
    last: int | None = None  # None: up to the last segment there is


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedHistory(Generic[StartT]):
    bases: Sequence[StartT]
    ranges: Sequence[SegmentRange]
    is_self_contained: bool  # nothing from before its own bases is needed any more
    has_dependents: bool

    def retains(self, segment: str) -> bool:
        number = wal.segment_number(segment)
        return any(each.first <= number and (each.last is None or number <= each.last) for each in self.ranges)


def compute_retention(
    volume: VolumeId, nodes: Mapping[VolumeId, LineageNode[StartT]], since: datetime | None
) -> RetainedHistory[StartT]:
    """Points of the volume itself are retained from `since` on; with None, none are."""
    node = nodes[volume]
    lineage = node.lineage
    anchor = next((base for base in reversed(lineage.bases) if since is not None and base.at <= since), None)
    bases, ranges = _retain_own(node, since, anchor)
    needs_ancestors = False
    has_dependents = False
    for fork in _forks(volume, _dependents_by_parent(nodes)):
        usable = [base for base in lineage.bases if fork.is_after(base)]
        if usable:
            bases.append(usable[-1])
            ranges.append(SegmentRange(wal.segment_number(usable[-1].first_segment), fork.first_number - 1))
        elif node.is_dependent:
            ranges.append(SegmentRange(lineage.first_segment_number, fork.first_number - 1))
            needs_ancestors = True
        else:
            continue
        has_dependents = True
    return RetainedHistory(
        bases=[base for base in lineage.bases if base in bases],
        ranges=ranges,
        is_self_contained=node.is_self_contained or ((since is None or anchor is not None) and not needs_ancestors),
        has_dependents=has_dependents,
    )


def _retain_own(
    node: LineageNode[StartT], since: datetime | None, anchor: StartT | None
) -> tuple[list[StartT], list[SegmentRange]]:
    """Return what points of the volume itself need.

    If no point before its first base can be reached, WAL from before that base is useless.
    """
    bases = node.lineage.bases
    if since is None:
        return [], []
    if anchor is not None:
        return [*bases[bases.index(anchor) :]], [SegmentRange(wal.segment_number(anchor.first_segment))]
    if node.is_dependent:
        return [*bases], [SegmentRange(node.lineage.first_segment_number)]
    return [*bases], [SegmentRange(wal.segment_number(bases[0].first_segment) if bases else 0)]


@dataclass(frozen=True, slots=True)
class _Fork:
    """A fork of a direct or indirect dependent: the earliest fork between it and the volume."""

    position: int
    at: datetime | None
    first_number: int  # from this segment on, the WAL is the dependent's own

    def is_after(self, base: StartT) -> bool:
        return lsn.to_int(base.lsn) <= self.position and (self.at is None or base.at <= self.at)


def _forks(volume: VolumeId, dependents: Mapping[VolumeId, Sequence[LineageNode[StartT]]]) -> Iterator[_Fork]:
    for child in dependents.get(volume, ()):
        fork = _Fork(child.lineage.fork_position, child.forked_at, child.lineage.first_segment_number)
        yield fork
        for further in _forks(child.lineage.volume, dependents):
            times = [at for at in (fork.at, further.at) if at is not None]
            yield _Fork(min(fork.position, further.position), min(times, default=None), fork.first_number)


def _dependents_by_parent(nodes: Mapping[VolumeId, LineageNode[StartT]]) -> dict[VolumeId, list[LineageNode[StartT]]]:
    dependents: dict[VolumeId, list[LineageNode[StartT]]] = {}
    for node in nodes.values():
        if node.parent is not None and node.is_dependent:
            dependents.setdefault(node.parent, []).append(node)
    return dependents
