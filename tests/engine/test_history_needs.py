"""What has to be kept: whatever is thrown away, every moment that is wanted can still be gone back to."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from bough.domain import lsn
from bough.domain.history import Point
from bough.engine.local.history.recovery_plan import VolumeLineage, plan_recovery
from bough.engine.local.history.retention import LineageNode, compute_retention
from bough.ids import VolumeId
from bough.postgres import wal

_DAY = datetime(2026, 1, 1, tzinfo=UTC)
_SEGMENT = wal.SEGMENT_BYTES
_PART = _SEGMENT // 4


@dataclass(frozen=True)
class Base:
    lsn: str
    at: datetime
    first_segment: str


@dataclass
class Lived:
    """A volume that grows by a quarter of a segment a second, with all that it archived."""

    kin: LineageNode[Base]
    born: datetime
    end: int
    archived: set[str] = field(default_factory=set)

    @property
    def name(self) -> VolumeId:
        return self.kin.lineage.volume


class Family:
    """What a clock and many volumes do, without any files."""

    def __init__(self) -> None:
        self.now = _DAY
        self.volumes: dict[VolumeId, Lived] = {}
        self.template = Base(
            lsn.to_text(_SEGMENT + 200), datetime.min.replace(tzinfo=UTC), wal.segment_name(1, _SEGMENT)
        )
        self._root()

    def _root(self) -> None:
        life: VolumeLineage[Base] = VolumeLineage(volume=VolumeId("v0"), first_segment=self.template.first_segment)
        self.volumes[life.volume] = Lived(
            LineageNode(lineage=life), self.now, _SEGMENT + 200, {self.template.first_segment}
        )

    def one(self, number: int) -> Lived:
        return list(self.volumes.values())[number % len(self.volumes)]

    def write(self, lived: Lived, parts: int) -> None:
        timeline = lived.kin.lineage.timeline
        for _ in range(parts):
            self.now += timedelta(seconds=1)
            lived.archived.add(wal.segment_name(timeline, lived.end))
            lived.end += _PART
            lived.archived.add(wal.segment_name(timeline, lived.end))

    def take_base(self, lived: Lived) -> None:
        self.now += timedelta(seconds=1)
        first = wal.segment_name(
            lived.kin.lineage.timeline, max(lived.end - _PART, lived.kin.lineage.first_segment_number * _SEGMENT)
        )
        base = Base(lsn.to_text(lived.end), self.now, first)
        life = replace(lived.kin.lineage, bases=[*lived.kin.lineage.bases, base])
        lived.kin = replace(lived.kin, lineage=life)

    def branch(self, parent: Lived, *, recovers: bool, killed: bool) -> None:
        """With the WAL from the segment on in which the copy begins; a recovery begins a timeline."""
        timeline = parent.kin.lineage.timeline + recovers
        name = VolumeId(f"v{len(self.volumes)}")
        life: VolumeLineage[Base] = VolumeLineage(
            volume=name,
            first_segment=wal.segment_name(timeline, parent.end),
            fork_lsn=None if killed else lsn.to_text(parent.end),
        )
        kin = LineageNode(lineage=life, parent=parent.name, forked_at=self.now)
        self.volumes[name] = made = Lived(kin, self.now, parent.end, {wal.segment_name(timeline, parent.end)})
        if not self.reaches(made, self.now):  # of one that was killed nobody knows where exactly it ended
            self.take_base(made)
            made.born = self.now

    def prune(self, lived: Lived, since: datetime) -> None:
        family = {name: each.kin for name, each in self.volumes.items()}
        kept = compute_retention(lived.name, family, since)
        life = replace(lived.kin.lineage, bases=list(kept.bases))
        lived.kin = replace(lived.kin, lineage=life, is_self_contained=kept.is_self_contained)
        lived.archived = {name for name in lived.archived if kept.retains(name)}

    def ancestry(self, lived: Lived) -> tuple[list[VolumeLineage[Base]], Base | None]:
        lives = [lived.kin.lineage]
        while not lived.kin.is_self_contained:
            if lived.kin.parent is None:
                return lives, self.template
            lived = self.volumes[lived.kin.parent]
            lives.append(lived.kin.lineage)
        return lives, None

    def reaches(self, lived: Lived, moment: datetime) -> bool:
        """Whether a plan for the moment finds all that it wants."""
        lives, template = self.ancestry(lived)
        found = plan_recovery(lives, template, Point(at=moment))
        return bool(found) and all(
            wal.segment_name_from_number(stretch.timeline, number) in self.volumes[stretch.volume].archived
            for stretch in found[0].ranges
            for number in _numbers(stretch.first, stretch.last, self.volumes[stretch.volume])
        )


def _numbers(first: int, last: int | None, lived: Lived) -> Iterable[int]:
    end = wal.segment_number_at(lived.end)
    return range(first, (end if last is None else min(last, end)) + 1)


_step = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 5), st.integers(1, 12)),
    st.tuples(st.just("base"), st.integers(0, 5), st.just(0)),
    st.tuples(st.just("branch"), st.integers(0, 5), st.integers(0, 3)),
    st.tuples(st.just("prune"), st.integers(0, 5), st.just(0)),
)


def _do(family: Family, step: tuple[str, int, int], retention: timedelta) -> None:
    what, which, number = step
    lived = family.one(which)
    if what == "write":
        family.write(lived, number)
    elif what == "base":
        family.take_base(lived)
    elif what == "branch":
        family.branch(lived, recovers=number % 2 == 1, killed=number == 2)
    else:
        family.prune(lived, family.now - retention)


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(_step, max_size=25), retention=st.integers(0, 15))
def test_every_moment_that_is_wanted_can_be_gone_back_to(steps: list[tuple[str, int, int]], retention: int) -> None:
    family, kept = Family(), timedelta(seconds=retention)
    for step in steps:
        _do(family, step, kept)
        for lived in family.volumes.values():
            since = max(lived.born, family.now - kept)
            moments = [since + timedelta(seconds=n) for n in range(int((family.now - since).total_seconds()) + 1)]
            lost = [moment for moment in moments if not family.reaches(lived, moment)]
            assert not lost, (lived.name, lost)


@given(steps=st.lists(_step, max_size=25))
@settings(max_examples=100, deadline=None)
def test_what_nobody_stands_on_and_nobody_wants_goes(steps: list[tuple[str, int, int]]) -> None:
    family = Family()
    for step in steps:
        _do(family, step, timedelta(days=1))
    for lived in reversed(family.volumes.values()):
        everybody = {name: each.kin for name, each in family.volumes.items()}
        wanted = compute_retention(lived.name, everybody, None)
        assert not wanted.has_dependents
        assert list(wanted.bases) == []
        assert not any(map(wanted.retains, lived.archived))
        lived.kin = replace(lived.kin, is_self_contained=True)


def test_a_child_needs_of_its_parent_what_is_between_its_base_and_itself() -> None:
    family = Family()
    root = family.one(0)
    family.write(root, 20)
    family.take_base(root)
    family.write(root, 20)
    family.branch(root, recovers=False, killed=False)
    family.write(root, 40)
    family.take_base(root)
    family.write(root, 4)
    child = family.one(1)
    kin = {name: each.kin for name, each in family.volumes.items()}
    wanted = compute_retention(root.name, kin, family.now)
    old, young = root.kin.lineage.bases
    assert list(wanted.bases) == [old, young]
    between = range(wal.segment_number(old.first_segment), child.kin.lineage.first_segment_number)
    assert [number for number in range(100) if wanted.retains(wal.segment_name_from_number(1, number))][
        : len(between)
    ] == list(between)
    after = wal.segment_number(young.first_segment)
    assert not any(
        wanted.retains(wal.segment_name_from_number(1, number))
        for number in range(child.kin.lineage.first_segment_number, after)
    )
    assert wanted.is_self_contained

    family.volumes[child.name].kin = replace(child.kin, is_self_contained=True)
    alone = compute_retention(root.name, {name: each.kin for name, each in family.volumes.items()}, family.now)
    assert list(alone.bases) == [young]
    assert not alone.has_dependents
