"""What has to be kept: whatever is thrown away, every moment that is wanted can still be gone back to."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from bough.domain import lsn
from bough.domain.history import Point
from bough.engine.local.history.needs import Kin, needs
from bough.engine.local.history.planning import Life, plans
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

    kin: Kin[Base]
    born: datetime
    end: int
    archived: set[str] = field(default_factory=set)

    @property
    def name(self) -> VolumeId:
        return self.kin.life.volume


class Family:
    """What a clock and many volumes do, without any files."""

    def __init__(self) -> None:
        self.now = _DAY
        self.volumes: dict[VolumeId, Lived] = {}
        self.template = Base(lsn.text(_SEGMENT + 200), datetime.min.replace(tzinfo=UTC), wal.segment_name(1, _SEGMENT))
        self._root()

    def _root(self) -> None:
        life: Life[Base] = Life(volume=VolumeId("v0"), first_segment=self.template.first_segment)
        self.volumes[life.volume] = Lived(Kin(life=life), self.now, _SEGMENT + 200, {self.template.first_segment})

    def one(self, number: int) -> Lived:
        return list(self.volumes.values())[number % len(self.volumes)]

    def write(self, lived: Lived, parts: int) -> None:
        timeline = lived.kin.life.timeline
        for _ in range(parts):
            self.now += timedelta(seconds=1)
            lived.archived.add(wal.segment_name(timeline, lived.end))
            lived.end += _PART
            lived.archived.add(wal.segment_name(timeline, lived.end))

    def take_base(self, lived: Lived) -> None:
        self.now += timedelta(seconds=1)
        first = wal.segment_name(
            lived.kin.life.timeline, max(lived.end - _PART, lived.kin.life.first_number * _SEGMENT)
        )
        base = Base(lsn.text(lived.end), self.now, first)
        life = replace(lived.kin.life, bases=[*lived.kin.life.bases, base])
        lived.kin = replace(lived.kin, life=life)

    def branch(self, parent: Lived, *, recovers: bool, killed: bool) -> None:
        """With the WAL from the segment on in which the copy begins; a recovery begins a timeline."""
        timeline = parent.kin.life.timeline + recovers
        name = VolumeId(f"v{len(self.volumes)}")
        life: Life[Base] = Life(
            volume=name,
            first_segment=wal.segment_name(timeline, parent.end),
            lsn=None if killed else lsn.text(parent.end),
        )
        kin = Kin(life=life, parent=parent.name, at=self.now)
        self.volumes[name] = made = Lived(kin, self.now, parent.end, {wal.segment_name(timeline, parent.end)})
        if not self.reaches(made, self.now):  # of one that was killed nobody knows where exactly it ended
            self.take_base(made)
            made.born = self.now

    def prune(self, lived: Lived, since: datetime) -> None:
        family = {name: each.kin for name, each in self.volumes.items()}
        kept = needs(lived.name, family, since)
        life = replace(lived.kin.life, bases=list(kept.bases))
        lived.kin = replace(lived.kin, life=life, begins_itself=kept.begins_itself)
        lived.archived = {name for name in lived.archived if kept.keeps(name)}

    def ancestry(self, lived: Lived) -> tuple[list[Life[Base]], Base | None]:
        lives = [lived.kin.life]
        while not lived.kin.begins_itself:
            if lived.kin.parent is None:
                return lives, self.template
            lived = self.volumes[lived.kin.parent]
            lives.append(lived.kin.life)
        return lives, None

    def reaches(self, lived: Lived, moment: datetime) -> bool:
        """Whether a plan for the moment finds all that it wants."""
        lives, template = self.ancestry(lived)
        found = plans(lives, template, Point(at=moment))
        return bool(found) and all(
            wal.numbered(stretch.timeline, number) in self.volumes[stretch.volume].archived
            for stretch in found[0].stretches
            for number in _numbers(stretch.first, stretch.last, self.volumes[stretch.volume])
        )


def _numbers(first: int, last: int | None, lived: Lived) -> Iterable[int]:
    end = wal.number_at(lived.end)
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
        wanted = needs(lived.name, everybody, None)
        assert not wanted.stood_on
        assert list(wanted.bases) == []
        assert not any(map(wanted.keeps, lived.archived))
        lived.kin = replace(lived.kin, begins_itself=True)


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
    wanted = needs(root.name, kin, family.now)
    old, young = root.kin.life.bases
    assert list(wanted.bases) == [old, young]
    between = range(wal.number_of(old.first_segment), child.kin.life.first_number)
    assert [number for number in range(100) if wanted.keeps(wal.numbered(1, number))][: len(between)] == list(between)
    after = wal.number_of(young.first_segment)
    assert not any(wanted.keeps(wal.numbered(1, number)) for number in range(child.kin.life.first_number, after))
    assert wanted.begins_itself

    family.volumes[child.name].kin = replace(child.kin, begins_itself=True)
    alone = needs(root.name, {name: each.kin for name, each in family.volumes.items()}, family.now)
    assert list(alone.bases) == [young]
    assert not alone.stood_on
