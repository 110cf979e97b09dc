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
from bough.engine.local.history.planning import B, Life
from bough.ids import VolumeId
from bough.postgres import wal


@dataclass(frozen=True, slots=True, kw_only=True)
class Kin(Generic[B]):
    """A volume's life, and what it stands on."""

    life: Life[B]
    parent: VolumeId | None = None  # None: its install's template
    at: datetime | None = None  # when it went its own way
    begins_itself: bool = False  # it stands on nothing

    @property
    def stands(self) -> bool:
        return not self.begins_itself and self.life.first_segment is not None


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers of segments."""

    first: int
    last: int | None = None  # None: to the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs(Generic[B]):
    bases: Sequence[B]
    ranges: Sequence[Range]
    begins_itself: bool  # from now on nothing before its own bases is needed
    stood_on: bool  # another volume needs some of it

    def keeps(self, segment: str) -> bool:
        number = wal.number_of(segment)
        return any(each.first <= number and (each.last is None or number <= each.last) for each in self.ranges)


def needs(volume: VolumeId, family: Mapping[VolumeId, Kin[B]], since: datetime | None) -> Needs[B]:
    """`since` is the first moment that is wanted of the volume itself; None: nobody goes back in it."""
    kin = family[volume]
    life = kin.life
    anchor = next((base for base in reversed(life.bases) if since is not None and base.at <= since), None)
    kept, ranges = _own(kin, since, anchor)
    goes_further = False
    stood_on = False
    for fork in _forks(volume, _standing_by_parent(family)):
        usable = [base for base in life.bases if fork.is_after(base)]
        if usable:
            kept.append(usable[-1])
            ranges.append(Range(wal.number_of(usable[-1].first_segment), fork.first_number - 1))
        elif kin.stands:
            ranges.append(Range(life.first_number, fork.first_number - 1))
            goes_further = True
        else:
            continue
        stood_on = True
    return Needs(
        bases=[base for base in life.bases if base in kept],
        ranges=ranges,
        begins_itself=kin.begins_itself or ((since is None or anchor is not None) and not goes_further),
        stood_on=stood_on,
    )


def _own(kin: Kin[B], since: datetime | None, anchor: B | None) -> tuple[list[B], list[Range]]:
    """For moments of its own. Where it cannot be gone back to before its first base, WAL from before is of no use."""
    bases = kin.life.bases
    if since is None:
        return [], []
    if anchor is not None:
        return [*bases[bases.index(anchor) :]], [Range(wal.number_of(anchor.first_segment))]
    if kin.stands:
        return [*bases], [Range(kin.life.first_number)]
    return [*bases], [Range(wal.number_of(bases[0].first_segment) if bases else 0)]


@dataclass(frozen=True, slots=True)
class _Fork:
    """Where somebody who stands on a volume went its own way, or one that he stands on did."""

    position: int
    at: datetime | None
    first_number: int  # from here on somebody else has the WAL

    def is_after(self, base: B) -> bool:
        return lsn.number(base.lsn) <= self.position and (self.at is None or base.at <= self.at)


def _forks(volume: VolumeId, standing: Mapping[VolumeId, Sequence[Kin[B]]]) -> Iterator[_Fork]:
    for child in standing.get(volume, ()):
        fork = _Fork(child.life.forks_at, child.at, child.life.first_number)
        yield fork
        for further in _forks(child.life.volume, standing):
            moments = [at for at in (fork.at, further.at) if at is not None]
            yield _Fork(min(fork.position, further.position), min(moments, default=None), fork.first_number)


def _standing_by_parent(family: Mapping[VolumeId, Kin[B]]) -> dict[VolumeId, list[Kin[B]]]:
    """Those that stand on another volume, by that volume."""
    found: dict[VolumeId, list[Kin[B]]] = {}
    for kin in family.values():
        if kin.parent is not None and kin.stands:
            found.setdefault(kin.parent, []).append(kin)
    return found
