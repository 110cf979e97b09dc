"""Which base and which WAL a point needs: planned for made-up lives, and replayed on paper."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from bough.domain import lsn
from bough.domain.history import HEAD, Point
from bough.engine.local.history.recovery_plan import RecoveryPlan, VolumeLineage, plan_recovery
from bough.ids import VolumeId
from bough.postgres import wal

SEGMENT = wal.SEGMENT_BYTES
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Begin:
    lsn: str
    at: datetime
    first_segment: str


def moment(number: int) -> datetime:
    return EPOCH + timedelta(seconds=number)


def begin(position: int, timeline: int = 1, *, reads_from: int | None = None) -> Begin:
    """A base that ended at the position, written at the second of the same number."""
    first = position if reads_from is None else reads_from
    return Begin(lsn.to_text(position), moment(position), wal.segment_name(timeline, first))


TEMPLATE = begin(SEGMENT + 100)


def life(
    name: str, begins: int, *bases: Begin, timeline: int = 1, reads_from: int | None = None
) -> VolumeLineage[Begin]:
    """`reads_from` is before it begins, where its own files begin with what its parent had written before."""
    return VolumeLineage(
        volume=VolumeId(name),
        first_segment=wal.segment_name(timeline, begins if reads_from is None else reads_from),
        fork_lsn=lsn.to_text(begins),
        bases=bases,
    )


def root(*bases: Begin) -> VolumeLineage[Begin]:
    return VolumeLineage(volume=VolumeId("root"), first_segment=TEMPLATE.first_segment, bases=bases)


def first(lives: list[VolumeLineage[Begin]], point: Point, template: Begin | None = TEMPLATE) -> RecoveryPlan[Begin]:
    return plan_recovery(lives, template, point)[0]


def told(plan: RecoveryPlan[Begin]) -> list[tuple[str, int, int | None]]:
    return [(str(each.volume), each.first, each.last) for each in plan.ranges]


def test_the_newest_base_that_ended_at_or_before_the_point() -> None:
    bases = [begin(each * SEGMENT) for each in (2, 5, 9)]
    for point, wanted in (
        (Point(lsn=lsn.to_text(9 * SEGMENT)), bases[2]),
        (Point(lsn=lsn.to_text(9 * SEGMENT - 8)), bases[1]),
        (Point(at=moment(9 * SEGMENT)), bases[2]),
        (Point(at=moment(9 * SEGMENT) - timedelta(microseconds=1)), bases[1]),
        (Point(at=moment(2 * SEGMENT - 8)), TEMPLATE),
        (HEAD, bases[2]),
    ):
        assert first([root(*bases)], point).start is wanted


def test_a_position_needs_no_wal_after_it() -> None:
    plan = first([root(begin(2 * SEGMENT))], Point(lsn=lsn.to_text(7 * SEGMENT + 8)))
    assert told(plan) == [("root", 2, 7)]


def test_a_moment_needs_the_wal_up_to_the_second_base_after_it() -> None:
    """The first may have ended a little before it was written down when."""
    bases = [begin(each * SEGMENT) for each in (2, 5, 9, 12)]
    assert told(first([root(*bases)], Point(at=moment(3 * SEGMENT)))) == [("root", 2, 9)]
    assert told(first([root(*bases)], Point(at=moment(10 * SEGMENT)))) == [("root", 9, None)]


def test_a_child_without_a_base_stands_on_its_parent_up_to_its_own_first_segment() -> None:
    parent = root(begin(3 * SEGMENT), begin(20 * SEGMENT))
    child = life("child", 6 * SEGMENT + 40)
    plan = first([child, parent], HEAD)
    assert plan.start is parent.bases[0]
    assert told(plan) == [("root", 3, 5), ("child", 6, None)]


def test_a_base_of_a_parent_after_the_child_was_made_is_not_the_childs() -> None:
    child = life("child", 6 * SEGMENT)
    assert first([child, root(begin(6 * SEGMENT + 8))], HEAD).start is TEMPLATE
    assert first([child, root(begin(6 * SEGMENT))], HEAD).start.lsn == lsn.to_text(6 * SEGMENT)


def test_a_base_of_a_grandparent_must_be_before_both_went_their_way() -> None:
    """The child of a parent that was made late may itself be of an early point of it."""
    grandparent = root(begin(5 * SEGMENT))
    parent = life("parent", 8 * SEGMENT)
    child = life("child", 4 * SEGMENT)
    assert first([child, parent, grandparent], HEAD).start is TEMPLATE


def test_the_child_of_one_that_was_killed_takes_only_what_was_surely_before() -> None:
    """Nobody knew where its WAL ended."""
    child: VolumeLineage[Begin] = VolumeLineage(
        volume=VolumeId("child"), first_segment=wal.segment_name(1, 6 * SEGMENT), fork_lsn=None, bases=()
    )
    late, early = begin(6 * SEGMENT + 8), begin(6 * SEGMENT)
    assert first([child, root(early, late)], HEAD).start is early


def test_a_life_that_begins_itself_goes_back_to_its_own_bases_and_no_further() -> None:
    old = VolumeLineage(volume=VolumeId("old"), first_segment=None, fork_lsn=None, bases=(begin(5 * SEGMENT),))
    assert plan_recovery([old, root(begin(2 * SEGMENT))], TEMPLATE, Point(lsn=lsn.to_text(3 * SEGMENT))) == []
    assert len(plan_recovery([old, root(begin(2 * SEGMENT))], TEMPLATE, HEAD)) == 1
    assert told(first([old], HEAD)) == [("old", 5, None)]


def test_the_timeline_is_gone_to_only_from_another() -> None:
    ours = life("ours", 6 * SEGMENT + 8, timeline=2)
    plan = first([ours, root(begin(3 * SEGMENT))], HEAD)
    assert plan.timeline == 2 and plan.timelines == {2}
    assert [each.timeline for each in plan.ranges] == [1, 2]
    based = life("ours", 6 * SEGMENT + 8, begin(7 * SEGMENT, 2), timeline=2)
    assert first([based, root(begin(3 * SEGMENT))], HEAD).timeline is None


def test_nothing_was_before_the_template() -> None:
    assert plan_recovery([root()], TEMPLATE, Point(lsn="0/10")) == []


def test_the_next_way_is_a_longer_one() -> None:
    bases = [begin(each * SEGMENT) for each in (2, 5)]
    ways = plan_recovery([root(*bases)], TEMPLATE, HEAD)
    assert [way.start for way in ways] == [bases[1], bases[0], TEMPLATE]


@dataclass
class World:
    """Lives that write a number for every unit of WAL: who wrote what, and which files hold it."""

    lives: list[VolumeLineage[Begin]] = field(default_factory=list)
    written: list[dict[int, str]] = field(default_factory=list)  # unit → who wrote it, in each life's eyes
    ends: list[int] = field(default_factory=list)

    def file(self, number: int, segment: int) -> Mapping[int, str]:
        """What a life's own file of a segment holds."""
        return {unit: who for unit, who in self.written[number].items() if unit // UNITS == segment}


UNITS = 4  # of WAL in a segment
UNIT = SEGMENT // UNITS


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A root, a child of it, a child of that …, each of a unit of its parent's life, each with bases of its own."""
    world = World()
    depth = draw(st.integers(min_value=1, max_value=4))
    timeline, fork, is_cloned = 1, UNITS, True
    for number in range(depth):
        end = fork + draw(st.integers(min_value=0, max_value=20))
        inherited = {unit: who for unit, who in (world.written[-1] if number else {}).items() if unit < fork}
        own = dict.fromkeys(range(fork, end), f"life {number}")
        ends = sorted(draw(st.sets(st.integers(min_value=fork, max_value=end), max_size=3)))
        bases = tuple(begin(unit * UNIT, timeline, reads_from=_reads_from(draw, unit, fork)) for unit in ends)
        reads = _reads_from(draw, fork, UNITS) if is_cloned else fork * UNIT
        made = (
            life(f"life-{number}", fork * UNIT, *bases, timeline=timeline, reads_from=reads) if number else root(*bases)
        )
        world.lives.insert(0, made)
        world.written.append({**inherited, **own})
        world.ends.append(end)
        is_cloned = draw(st.booleans())  # the next one; or it is recovered to a point
        timeline += not is_cloned
        fork = draw(st.integers(min_value=fork, max_value=end))
    return world


def _reads_from(draw: st.DrawFn, unit: int, fork: int) -> int:
    """A base that was made of a server that ran begins to read a little before it ended."""
    return draw(st.integers(min_value=max(fork, unit - 3), max_value=unit)) * UNIT


@given(worlds(), st.data())
def test_whatever_was_lived_every_way_to_a_point_replays_it(world: World, data: st.DataObject) -> None:
    youngest = len(world.lives) - 1
    begins, end = world.lives[0].fork_position // UNIT, world.ends[-1]
    wanted = data.draw(st.integers(min_value=begins if youngest else UNITS, max_value=end))
    point = data.draw(st.sampled_from([Point(lsn=lsn.to_text(wanted * UNIT)), Point(at=moment(wanted * UNIT))]))
    template = begin(UNITS * UNIT)
    ways = plan_recovery(world.lives, template, point)
    assert ways, "the template is before everything"
    for way in ways:
        assert lsn.to_int(way.start.lsn) <= wanted * UNIT
        held: dict[int, str] = {}
        for stretch in way.ranges:
            number = youngest - [each.volume for each in world.lives].index(stretch.volume)
            last = stretch.last if stretch.last is not None else end // UNITS
            for segment in range(stretch.first, last + 1):
                held.update(world.file(number, segment))
        reads = wal.segment_number(way.start.first_segment) * UNITS
        needed = {unit: who for unit, who in world.written[youngest].items() if reads <= unit < wanted}
        assert {unit: who for unit, who in held.items() if unit in needed} == needed
        numbers = [number for each in way.ranges for number in range(each.first, (each.last or end // UNITS) + 1)]
        assert numbers == sorted(set(numbers)), "each file comes from one place"
