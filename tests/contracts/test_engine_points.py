"""The contract of branches at a point of their parent's history, on every volume driver."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import asyncpg
import pytest

from bough.domain import lsn
from bough.domain.history import HEAD, Point
from bough.engine.port import Engine, EngineError, Origin, Readiness
from bough.engine.spec import BranchSpec, ComputeSpec
from contracts.engines import connect, make_child_spec, start_compute
from support.engine_home import ROLE, kill_postmaster_of, make_branch_spec

INSERT_NEXT = "insert into numbers select coalesce(max(n), 0) + 1 from numbers returning n"
SELECT_MARK = "select pg_current_wal_insert_lsn()::text as lsn, clock_timestamp() as at"


@dataclass(frozen=True)
class Mark:
    """A position after one commit and before the next."""

    number: int
    lsn: str
    at: datetime

    @property
    def points(self) -> tuple[Point, Point]:
        return Point(lsn=self.lsn), Point(at=self.at)

    @property
    def numbers(self) -> list[int]:
        return list(range(1, self.number + 1))


async def insert_numbers(engine: Engine, spec: ComputeSpec, count: int) -> list[Mark]:
    marks = []
    async with await connect(engine, spec) as db:
        await db.execute("create table if not exists numbers (n int)")
        for _ in range(count):
            number = await db.fetchval(INSERT_NEXT)
            marks.append(Mark(number, **await db.fetchrow(SELECT_MARK)))
    return marks


def spec_at(point: Point, parent: ComputeSpec, spec: ComputeSpec) -> BranchSpec:
    return replace(make_branch_spec(spec), source_volume_id=parent.volume_id, point=point)


async def create_branch_at(engine: Engine, parent: ComputeSpec, point: Point) -> tuple[ComputeSpec, Origin]:
    spec = make_child_spec(parent)
    return spec, await engine.ensure_branch(spec_at(point, parent, spec))


async def start_and_read(engine: Engine, spec: ComputeSpec) -> list[int]:
    assert await engine.ensure_running(spec) is Readiness.READY
    async with await connect(engine, spec) as db:
        return [row["n"] for row in await db.fetch("select n from numbers order by n")]


async def check_points(engine: Engine, parent: ComputeSpec, marks: Sequence[Mark]) -> None:
    """Alternate between positions and times."""
    for number, mark in enumerate(marks):
        point = mark.points[number % 2]
        spec, origin = await create_branch_at(engine, parent, point)
        assert await start_and_read(engine, spec) == mark.numbers, point
        assert origin.lsn is not None and origin.at is not None
        if point.lsn is not None:
            assert lsn.to_int(origin.lsn) <= lsn.to_int(mark.lsn)
        assert origin.at <= mark.at
        assert await engine.ensure_branch(spec_at(point, parent, spec)) == origin, "a repeated call returns the same"
        await engine.ensure_suspended(spec.endpoint_id)
        await engine.ensure_absent(spec.project_id, spec.volume_id)


async def kill(engine: Engine, spec: ComputeSpec) -> None:
    with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):  # the connection breaks
        async with await connect(engine, spec) as db:
            await kill_postmaster_of(await db.fetchval("select pg_backend_pid()"))


async def test_of_a_running_parent(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    marks = await insert_numbers(engine, spec, 4)
    await check_points(engine, spec, (marks[0], marks[2], marks[-1]))
    assert await start_and_read(engine, spec) == marks[-1].numbers, "the parent is unchanged"


async def test_of_a_sleeping_parent(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    marks = await insert_numbers(engine, spec, 3)
    await engine.ensure_suspended(spec.endpoint_id)
    await check_points(engine, spec, (marks[1], marks[-1]))


async def test_of_a_parent_that_was_killed(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    marks = await insert_numbers(engine, spec, 3)
    await kill(engine, spec)
    await check_points(engine, spec, (marks[-1], marks[1]))
    assert await start_and_read(engine, spec) == marks[-1].numbers


async def test_of_a_branch_that_was_restored_itself(engine: Engine, spec: ComputeSpec) -> None:
    """Its WAL has the positions of its parent again, on another timeline; and a third time."""
    await start_compute(engine, spec)
    marks = await insert_numbers(engine, spec, 3)
    second, _ = await create_branch_at(engine, spec, marks[1].points[0])
    assert await start_and_read(engine, second) == [1, 2]
    marks_of_second = await insert_numbers(engine, second, 2)
    third, _ = await create_branch_at(engine, second, marks_of_second[0].points[1])
    assert await start_and_read(engine, third) == [1, 2, 3]
    last = await insert_numbers(engine, third, 2)
    await check_points(engine, third, last[:1])
    await engine.ensure_suspended(third.endpoint_id)
    await check_points(engine, third, last[1:])


async def test_nothing_is_replayed_when_nothing_was_written_after_the_point(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    marks = await insert_numbers(engine, spec, 1)
    await engine.ensure_suspended(spec.endpoint_id)
    later = marks[-1].at + timedelta(days=1)
    at_point, origin = await create_branch_at(engine, spec, Point(at=later))
    cloned, head_origin = await create_branch_at(engine, spec, HEAD)
    assert origin == replace(head_origin, at=later)
    assert await start_and_read(engine, at_point) == await start_and_read(engine, cloned) == [1]
    child, child_origin = await create_branch_at(engine, cloned, Point(at=later))
    assert child_origin.lsn != head_origin.lsn, "a server has run on it since"
    assert await start_and_read(engine, child) == [1]


async def test_a_volume_that_is_not_there_has_no_points(engine: Engine, spec: ComputeSpec) -> None:
    with pytest.raises(EngineError, match="does not exist") as refused:
        await create_branch_at(engine, spec, Point(lsn="0/1000000"))
    assert not refused.value.transient


async def test_where_the_wal_ends(engine: Engine, spec: ComputeSpec) -> None:
    assert await engine.read_wal_end(spec.volume_id) is None
    await start_compute(engine, spec)
    mark = (await insert_numbers(engine, spec, 1))[0]
    running = await engine.read_wal_end(spec.volume_id)
    child, origin = await create_branch_at(engine, spec, HEAD)
    assert await engine.read_wal_end(child.volume_id) == origin.lsn
    await engine.ensure_suspended(spec.endpoint_id)
    stopped = await engine.read_wal_end(spec.volume_id)
    assert running is not None and stopped is not None
    assert lsn.to_int(mark.lsn) <= lsn.to_int(running) <= lsn.to_int(stopped)
    read_only = replace(spec, is_read_only=True)
    assert await engine.ensure_running(read_only) is Readiness.READY
    assert await engine.read_wal_end(spec.volume_id) == stopped, "a read-only compute writes no WAL"
    await engine.ensure_suspended(spec.endpoint_id)
    assert await start_and_read(engine, spec) == [1]
    await kill(engine, spec)
    assert await engine.read_wal_end(spec.volume_id) is None


async def test_one_can_look_into_a_branch_without_waking_it(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    running = await engine.read_branch_contents(make_branch_spec(spec))
    assert ROLE in {role.name for role in running.roles}
    await engine.ensure_suspended(spec.endpoint_id)
    assert await engine.read_branch_contents(make_branch_spec(spec)) == running
    assert spec.endpoint_id not in (await engine.observe()).running_endpoints
