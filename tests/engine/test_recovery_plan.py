"""Recovery plans: which base and which WAL a point needs, checked with invented lineages and a simulated replay."""

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
class Base:
    lsn: str
    at: datetime
    first_segment: str


def time_of(number: int) -> datetime:
    return EPOCH + timedelta(seconds=number)


def make_base(position: int, timeline: int = 1, *, first_read: int | None = None) -> Base:
    """A base that ends at the position, taken at the second of the same number."""
    first = position if first_read is None else first_read
    return Base(lsn.to_text(position), time_of(position), wal.segment_name(timeline, first))


TEMPLATE = make_base(SEGMENT + 100)


def make_lineage(
    name: str, fork: int, *bases: Base, timeline: int = 1, first_read: int | None = None
) -> VolumeLineage[Base]:
    """`first_read` is before the fork if its own files start with what its parent wrote before."""
    return VolumeLineage(
        volume=VolumeId(name),
        first_segment=wal.segment_name(timeline, fork if first_read is None else first_read),
        fork_lsn=lsn.to_text(fork),
        bases=bases,
    )


def root(*bases: Base) -> VolumeLineage[Base]:
    return VolumeLineage(volume=VolumeId("root"), first_segment=TEMPLATE.first_segment, bases=bases)


def shortest_plan(
    lineages: list[VolumeLineage[Base]], point: Point, template: Base | None = TEMPLATE
) -> RecoveryPlan[Base]:
    return plan_recovery(lineages, template, point)[0]


def list_ranges(plan: RecoveryPlan[Base]) -> list[tuple[str, int, int | None]]:
    return [(str(each.volume), each.first, each.last) for each in plan.ranges]


def test_the_newest_base_that_ended_at_or_before_the_point() -> None:
    bases = [make_base(each * SEGMENT) for each in (2, 5, 9)]
    for point, expected in (
        (Point(lsn=lsn.to_text(9 * SEGMENT)), bases[2]),
        (Point(lsn=lsn.to_text(9 * SEGMENT - 8)), bases[1]),
        (Point(at=time_of(9 * SEGMENT)), bases[2]),
        (Point(at=time_of(9 * SEGMENT) - timedelta(microseconds=1)), bases[1]),
        (Point(at=time_of(2 * SEGMENT - 8)), TEMPLATE),
        (HEAD, bases[2]),
    ):
        assert shortest_plan([root(*bases)], point).start is expected


def test_a_position_needs_no_wal_after_it() -> None:
    plan = shortest_plan([root(make_base(2 * SEGMENT))], Point(lsn=lsn.to_text(7 * SEGMENT + 8)))
    assert list_ranges(plan) == [("root", 2, 7)]


def test_a_moment_needs_the_wal_up_to_the_second_base_after_it() -> None:
    """The first one may have ended a little before its recorded time."""
    bases = [make_base(each * SEGMENT) for each in (2, 5, 9, 12)]
    assert list_ranges(shortest_plan([root(*bases)], Point(at=time_of(3 * SEGMENT)))) == [("root", 2, 9)]
    assert list_ranges(shortest_plan([root(*bases)], Point(at=time_of(10 * SEGMENT)))) == [("root", 9, None)]


def test_a_child_without_a_base_stands_on_its_parent_up_to_its_own_first_segment() -> None:
    parent = root(make_base(3 * SEGMENT), make_base(20 * SEGMENT))
    child = make_lineage("child", 6 * SEGMENT + 40)
    plan = shortest_plan([child, parent], HEAD)
    assert plan.start is parent.bases[0]
    assert list_ranges(plan) == [("root", 3, 5), ("child", 6, None)]


def test_a_base_of_a_parent_after_the_child_was_made_is_not_the_childs() -> None:
    child = make_lineage("child", 6 * SEGMENT)
    assert shortest_plan([child, root(make_base(6 * SEGMENT + 8))], HEAD).start is TEMPLATE
    assert shortest_plan([child, root(make_base(6 * SEGMENT))], HEAD).start.lsn == lsn.to_text(6 * SEGMENT)


def test_a_base_of_a_grandparent_must_be_before_both_went_their_way() -> None:
    """The child of a late parent may itself start at an early point of it."""
    grandparent = root(make_base(5 * SEGMENT))
    parent = make_lineage("parent", 8 * SEGMENT)
    child = make_lineage("child", 4 * SEGMENT)
    assert shortest_plan([child, parent, grandparent], HEAD).start is TEMPLATE


def test_the_child_of_one_that_was_killed_takes_only_what_was_surely_before() -> None:
    """It is unknown where the parent's WAL ended."""
    child: VolumeLineage[Base] = VolumeLineage(
        volume=VolumeId("child"), first_segment=wal.segment_name(1, 6 * SEGMENT), fork_lsn=None, bases=()
    )
    late, early = make_base(6 * SEGMENT + 8), make_base(6 * SEGMENT)
    assert shortest_plan([child, root(early, late)], HEAD).start is early


def test_a_life_that_begins_itself_goes_back_to_its_own_bases_and_no_further() -> None:
    old = VolumeLineage(volume=VolumeId("old"), first_segment=None, fork_lsn=None, bases=(make_base(5 * SEGMENT),))
    assert plan_recovery([old, root(make_base(2 * SEGMENT))], TEMPLATE, Point(lsn=lsn.to_text(3 * SEGMENT))) == []
    assert len(plan_recovery([old, root(make_base(2 * SEGMENT))], TEMPLATE, HEAD)) == 1
    assert list_ranges(shortest_plan([old], HEAD)) == [("old", 5, None)]


def test_the_timeline_is_gone_to_only_from_another() -> None:
    restored = make_lineage("ours", 6 * SEGMENT + 8, timeline=2)
    plan = shortest_plan([restored, root(make_base(3 * SEGMENT))], HEAD)
    assert plan.timeline == 2 and plan.timelines == {2}
    assert [each.timeline for each in plan.ranges] == [1, 2]
    restored_with_base = make_lineage("ours", 6 * SEGMENT + 8, make_base(7 * SEGMENT, 2), timeline=2)
    assert shortest_plan([restored_with_base, root(make_base(3 * SEGMENT))], HEAD).timeline is None


def test_nothing_was_before_the_template() -> None:
    assert plan_recovery([root()], TEMPLATE, Point(lsn="0/10")) == []


def test_the_next_way_is_a_longer_one() -> None:
    bases = [make_base(each * SEGMENT) for each in (2, 5)]
    plans = plan_recovery([root(*bases)], TEMPLATE, HEAD)
    assert [plan.start for plan in plans] == [bases[1], bases[0], TEMPLATE]


@dataclass
class World:
    """Lineages that write a value for every unit of WAL: which one wrote what, and which files hold it."""

    lineages: list[VolumeLineage[Base]] = field(default_factory=list)
    written: list[dict[int, str]] = field(
        default_factory=list
    )  # unit → the lineage that wrote it, as each lineage has it
    ends: list[int] = field(default_factory=list)

    def file(self, number: int, segment: int) -> Mapping[int, str]:
        """Return what the lineage's own file of a segment holds."""
        return {unit: writer for unit, writer in self.written[number].items() if unit // UNITS == segment}


UNITS = 4  # of WAL in a segment
UNIT = SEGMENT // UNITS


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A root, its child, a child of that …, each forked at a unit of its parent, each with its own bases."""
    world = World()
    depth = draw(st.integers(min_value=1, max_value=4))
    timeline, fork, is_cloned = 1, UNITS, True
    for number in range(depth):
        end = fork + draw(st.integers(min_value=0, max_value=20))
        inherited = {unit: writer for unit, writer in (world.written[-1] if number else {}).items() if unit < fork}
        own = dict.fromkeys(range(fork, end), f"lineage {number}")
        ends = sorted(draw(st.sets(st.integers(min_value=fork, max_value=end), max_size=3)))
        bases = tuple(make_base(unit * UNIT, timeline, first_read=_draw_first_read(draw, unit, fork)) for unit in ends)
        reads = _draw_first_read(draw, fork, UNITS) if is_cloned else fork * UNIT
        lineage = (
            make_lineage(f"lineage-{number}", fork * UNIT, *bases, timeline=timeline, first_read=reads)
            if number
            else root(*bases)
        )
        world.lineages.insert(0, lineage)
        world.written.append({**inherited, **own})
        world.ends.append(end)
        is_cloned = draw(st.booleans())  # the next one; otherwise it is recovered to a point
        timeline += not is_cloned
        fork = draw(st.integers(min_value=fork, max_value=end))
    return world


def _draw_first_read(draw: st.DrawFn, unit: int, fork: int) -> int:
    """A base of a running server starts to read a little before it ends."""
    return draw(st.integers(min_value=max(fork, unit - 3), max_value=unit)) * UNIT


@given(worlds(), st.data())
def test_whatever_was_lived_every_way_to_a_point_replays_it(world: World, data: st.DataObject) -> None:
    youngest = len(world.lineages) - 1
    start, end = world.lineages[0].fork_position // UNIT, world.ends[-1]
    wanted = data.draw(st.integers(min_value=start if youngest else UNITS, max_value=end))
    point = data.draw(st.sampled_from([Point(lsn=lsn.to_text(wanted * UNIT)), Point(at=time_of(wanted * UNIT))]))
    template = make_base(UNITS * UNIT)
    plans = plan_recovery(world.lineages, template, point)
    assert plans, "the template is before every point"
    for plan in plans:
        assert lsn.to_int(plan.start.lsn) <= wanted * UNIT
        replayed: dict[int, str] = {}
        for wal_range in plan.ranges:
            number = youngest - [each.volume for each in world.lineages].index(wal_range.volume)
            last = wal_range.last if wal_range.last is not None else end // UNITS
            for segment in range(wal_range.first, last + 1):
                replayed.update(world.file(number, segment))
        first_unit = wal.segment_number(plan.start.first_segment) * UNITS
        needed = {unit: writer for unit, writer in world.written[youngest].items() if first_unit <= unit < wanted}
        assert {unit: writer for unit, writer in replayed.items() if unit in needed} == needed
        numbers = [number for each in plan.ranges for number in range(each.first, (each.last or end // UNITS) + 1)]
        assert numbers == sorted(set(numbers)), "each file comes from one volume"
