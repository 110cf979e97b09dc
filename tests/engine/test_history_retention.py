"""Retention: whatever is pruned, every point within the retention can still be recovered."""

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

_START = datetime(2026, 1, 1, tzinfo=UTC)
_SEGMENT = wal.SEGMENT_BYTES
_QUARTER = _SEGMENT // 4


@dataclass(frozen=True)
class Base:
    lsn: str
    at: datetime
    first_segment: str


@dataclass
class Volume:
    """A volume that writes a quarter of a segment per second, with the segments that it archived."""

    node: LineageNode[Base]
    created_at: datetime
    end: int
    archived: set[str] = field(default_factory=set)

    @property
    def name(self) -> VolumeId:
        return self.node.lineage.volume


class Simulation:
    """Simulates many volumes and a clock without any files."""

    def __init__(self) -> None:
        self.now = _START
        self.volumes: dict[VolumeId, Volume] = {}
        self.template = Base(
            lsn.to_text(_SEGMENT + 200), datetime.min.replace(tzinfo=UTC), wal.segment_name(1, _SEGMENT)
        )
        self._root()

    def _root(self) -> None:
        lineage: VolumeLineage[Base] = VolumeLineage(volume=VolumeId("v0"), first_segment=self.template.first_segment)
        self.volumes[lineage.volume] = Volume(
            LineageNode(lineage=lineage), self.now, _SEGMENT + 200, {self.template.first_segment}
        )

    def get(self, number: int) -> Volume:
        return list(self.volumes.values())[number % len(self.volumes)]

    def write(self, volume: Volume, quarters: int) -> None:
        timeline = volume.node.lineage.timeline
        for _ in range(quarters):
            self.now += timedelta(seconds=1)
            volume.archived.add(wal.segment_name(timeline, volume.end))
            volume.end += _QUARTER
            volume.archived.add(wal.segment_name(timeline, volume.end))

    def take_base(self, volume: Volume) -> None:
        self.now += timedelta(seconds=1)
        first = wal.segment_name(
            volume.node.lineage.timeline,
            max(volume.end - _QUARTER, volume.node.lineage.first_segment_number * _SEGMENT),
        )
        base = Base(lsn.to_text(volume.end), self.now, first)
        lineage = replace(volume.node.lineage, bases=[*volume.node.lineage.bases, base])
        volume.node = replace(volume.node, lineage=lineage)

    def branch(self, parent: Volume, *, is_recovery: bool, is_killed: bool) -> None:
        """The child has the WAL from the segment on that the copy starts in; a recovery starts a new timeline."""
        timeline = parent.node.lineage.timeline + is_recovery
        name = VolumeId(f"v{len(self.volumes)}")
        lineage: VolumeLineage[Base] = VolumeLineage(
            volume=name,
            first_segment=wal.segment_name(timeline, parent.end),
            fork_lsn=None if is_killed else lsn.to_text(parent.end),
        )
        node = LineageNode(lineage=lineage, parent=parent.name, forked_at=self.now)
        self.volumes[name] = child = Volume(node, self.now, parent.end, {wal.segment_name(timeline, parent.end)})
        if not self.reaches(child, self.now):  # it is unknown where a killed parent ended
            self.take_base(child)
            child.created_at = self.now

    def prune(self, volume: Volume, since: datetime) -> None:
        nodes = {name: other.node for name, other in self.volumes.items()}
        retained = compute_retention(volume.name, nodes, since)
        lineage = replace(volume.node.lineage, bases=list(retained.bases))
        volume.node = replace(volume.node, lineage=lineage, is_self_contained=retained.is_self_contained)
        volume.archived = {name for name in volume.archived if retained.retains(name)}

    def ancestry(self, volume: Volume) -> tuple[list[VolumeLineage[Base]], Base | None]:
        lineages = [volume.node.lineage]
        while not volume.node.is_self_contained:
            if volume.node.parent is None:
                return lineages, self.template
            volume = self.volumes[volume.node.parent]
            lineages.append(volume.node.lineage)
        return lineages, None

    def reaches(self, volume: Volume, at: datetime) -> bool:
        """Whether the plan for that time finds all its segments."""
        lineages, template = self.ancestry(volume)
        plans = plan_recovery(lineages, template, Point(at=at))
        return bool(plans) and all(
            wal.segment_name_from_number(wal_range.timeline, number) in self.volumes[wal_range.volume].archived
            for wal_range in plans[0].ranges
            for number in _numbers(wal_range.first, wal_range.last, self.volumes[wal_range.volume])
        )


def _numbers(first: int, last: int | None, volume: Volume) -> Iterable[int]:
    end = wal.segment_number_at(volume.end)
    return range(first, (end if last is None else min(last, end)) + 1)


_step = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 5), st.integers(1, 12)),
    st.tuples(st.just("base"), st.integers(0, 5), st.just(0)),
    st.tuples(st.just("branch"), st.integers(0, 5), st.integers(0, 3)),
    st.tuples(st.just("prune"), st.integers(0, 5), st.just(0)),
)


def _apply_step(simulation: Simulation, step: tuple[str, int, int], retention: timedelta) -> None:
    action, index, number = step
    volume = simulation.get(index)
    if action == "write":
        simulation.write(volume, number)
    elif action == "base":
        simulation.take_base(volume)
    elif action == "branch":
        simulation.branch(volume, is_recovery=number % 2 == 1, is_killed=number == 2)
    else:
        simulation.prune(volume, simulation.now - retention)


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(_step, max_size=25), retention=st.integers(0, 15))
def test_every_moment_that_is_wanted_can_be_gone_back_to(steps: list[tuple[str, int, int]], retention: int) -> None:
    simulation, retained = Simulation(), timedelta(seconds=retention)
    for step in steps:
        _apply_step(simulation, step, retained)
        for volume in simulation.volumes.values():
            since = max(volume.created_at, simulation.now - retained)
            times = [since + timedelta(seconds=n) for n in range(int((simulation.now - since).total_seconds()) + 1)]
            unreachable = [at for at in times if not simulation.reaches(volume, at)]
            assert not unreachable, (volume.name, unreachable)


@given(steps=st.lists(_step, max_size=25))
@settings(max_examples=100, deadline=None)
def test_what_nobody_stands_on_and_nobody_wants_goes(steps: list[tuple[str, int, int]]) -> None:
    simulation = Simulation()
    for step in steps:
        _apply_step(simulation, step, timedelta(days=1))
    for volume in reversed(simulation.volumes.values()):
        nodes = {name: each.node for name, each in simulation.volumes.items()}
        retained = compute_retention(volume.name, nodes, None)
        assert not retained.has_dependents
        assert list(retained.bases) == []
        assert not any(map(retained.retains, volume.archived))
        volume.node = replace(volume.node, is_self_contained=True)


def test_a_child_needs_of_its_parent_what_is_between_its_base_and_itself() -> None:
    simulation = Simulation()
    root = simulation.get(0)
    simulation.write(root, 20)
    simulation.take_base(root)
    simulation.write(root, 20)
    simulation.branch(root, is_recovery=False, is_killed=False)
    simulation.write(root, 40)
    simulation.take_base(root)
    simulation.write(root, 4)
    child = simulation.get(1)
    nodes = {name: each.node for name, each in simulation.volumes.items()}
    retained = compute_retention(root.name, nodes, simulation.now)
    old, young = root.node.lineage.bases
    assert list(retained.bases) == [old, young]
    between = range(wal.segment_number(old.first_segment), child.node.lineage.first_segment_number)
    assert [number for number in range(100) if retained.retains(wal.segment_name_from_number(1, number))][
        : len(between)
    ] == list(between)
    after = wal.segment_number(young.first_segment)
    assert not any(
        retained.retains(wal.segment_name_from_number(1, number))
        for number in range(child.node.lineage.first_segment_number, after)
    )
    assert retained.is_self_contained

    simulation.volumes[child.name].node = replace(child.node, is_self_contained=True)
    without_child = compute_retention(
        root.name, {name: each.node for name, each in simulation.volumes.items()}, simulation.now
    )
    assert list(without_child.bases) == [young]
    assert not without_child.has_dependents
