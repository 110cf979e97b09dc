"""Branches at a point of their parent's life, with the port alone and on every driver of volumes."""

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

NEXT = "insert into numbers select coalesce(max(n), 0) + 1 from numbers returning n"
MARKED = "select pg_current_wal_insert_lsn()::text as lsn, clock_timestamp() as at"


@dataclass(frozen=True)
class Mark:
    """After a commit and before the next."""

    number: int
    lsn: str
    at: datetime

    @property
    def points(self) -> tuple[Point, Point]:
        return Point(lsn=self.lsn), Point(at=self.at)

    @property
    def numbers(self) -> list[int]:
        return list(range(1, self.number + 1))


async def write(engine: Engine, spec: ComputeSpec, count: int) -> list[Mark]:
    marks = []
    async with await connect(engine, spec) as db:
        await db.execute("create table if not exists numbers (n int)")
        for _ in range(count):
            number = await db.fetchval(NEXT)
            marks.append(Mark(number, **await db.fetchrow(MARKED)))
    return marks


def at(point: Point, parent: ComputeSpec, own: ComputeSpec) -> BranchSpec:
    return replace(make_branch_spec(own), parent=parent.volume_id, point=point)


async def begun(engine: Engine, parent: ComputeSpec, point: Point) -> tuple[ComputeSpec, Origin]:
    own = make_child_spec(parent)
    return own, await engine.ensure_branch(at(point, parent, own))


async def held(engine: Engine, spec: ComputeSpec) -> list[int]:
    assert await engine.ensure_running(spec) is Readiness.READY
    async with await connect(engine, spec) as db:
        return [row["n"] for row in await db.fetch("select n from numbers order by n")]


async def check(engine: Engine, parent: ComputeSpec, marks: Sequence[Mark]) -> None:
    """A position, a moment, a position …"""
    for number, mark in enumerate(marks):
        point = mark.points[number % 2]
        own, origin = await begun(engine, parent, point)
        assert await held(engine, own) == mark.numbers, point
        assert origin.lsn is not None and origin.at is not None
        if point.lsn is not None:
            assert lsn.to_int(origin.lsn) <= lsn.to_int(mark.lsn)
        assert origin.at <= mark.at
        assert await engine.ensure_branch(at(point, parent, own)) == origin, "and stays so"
        await engine.ensure_suspended(own.endpoint_id)
        await engine.ensure_absent(own.project_id, own.volume_id)


async def kill(engine: Engine, spec: ComputeSpec) -> None:
    with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):  # its own end is cut short
        async with await connect(engine, spec) as db:
            await kill_postmaster_of(await db.fetchval("select pg_backend_pid()"))


async def test_of_a_running_parent(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    marks = await write(engine, spec, 4)
    await check(engine, spec, (marks[0], marks[2], marks[-1]))
    assert await held(engine, spec) == marks[-1].numbers, "the parent is as it was"


async def test_of_a_sleeping_parent(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    marks = await write(engine, spec, 3)
    await engine.ensure_suspended(spec.endpoint_id)
    await check(engine, spec, (marks[1], marks[-1]))


async def test_of_a_parent_that_was_killed(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    marks = await write(engine, spec, 3)
    await kill(engine, spec)
    await check(engine, spec, (marks[-1], marks[1]))
    assert await held(engine, spec) == marks[-1].numbers


async def test_of_a_branch_that_was_restored_itself(engine: Engine, spec: ComputeSpec) -> None:
    """Its WAL has the positions of the parent's a second time, on another timeline; and a third time."""
    await start_compute(engine, spec)
    marks = await write(engine, spec, 3)
    second, _ = await begun(engine, spec, marks[1].points[0])
    assert await held(engine, second) == [1, 2]
    own = await write(engine, second, 2)
    third, _ = await begun(engine, second, own[0].points[1])
    assert await held(engine, third) == [1, 2, 3]
    last = await write(engine, third, 2)
    await check(engine, third, last[:1])
    await engine.ensure_suspended(third.endpoint_id)
    await check(engine, third, last[1:])


async def test_nothing_is_replayed_when_nothing_was_written_after_the_point(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    marks = await write(engine, spec, 1)
    await engine.ensure_suspended(spec.endpoint_id)
    later = marks[-1].at + timedelta(days=1)
    own, origin = await begun(engine, spec, Point(at=later))
    cloned, now = await begun(engine, spec, HEAD)
    assert origin == replace(now, at=later)
    assert await held(engine, own) == await held(engine, cloned) == [1]
    of_it, again = await begun(engine, cloned, Point(at=later))
    assert again.lsn != now.lsn, "it has lived meanwhile"
    assert await held(engine, of_it) == [1]


async def test_a_volume_that_is_not_there_has_no_points(engine: Engine, spec: ComputeSpec) -> None:
    with pytest.raises(EngineError, match="does not exist") as refused:
        await begun(engine, spec, Point(lsn="0/1000000"))
    assert not refused.value.transient


async def test_where_the_wal_ends(engine: Engine, spec: ComputeSpec) -> None:
    assert await engine.read_wal_end(spec.volume_id) is None
    await start_compute(engine, spec)
    mark = (await write(engine, spec, 1))[0]
    running = await engine.read_wal_end(spec.volume_id)
    child, origin = await begun(engine, spec, HEAD)
    assert await engine.read_wal_end(child.volume_id) == origin.lsn
    await engine.ensure_suspended(spec.endpoint_id)
    asleep = await engine.read_wal_end(spec.volume_id)
    assert running is not None and asleep is not None
    assert lsn.to_int(mark.lsn) <= lsn.to_int(running) <= lsn.to_int(asleep)
    stands = replace(spec, is_read_only=True)
    assert await engine.ensure_running(stands) is Readiness.READY
    assert await engine.read_wal_end(spec.volume_id) == asleep, "it stands where it ended"
    await engine.ensure_suspended(spec.endpoint_id)
    assert await held(engine, spec) == [1]
    await kill(engine, spec)
    assert await engine.read_wal_end(spec.volume_id) is None


async def test_one_can_look_into_a_branch_without_waking_it(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    running = await engine.read_branch_contents(make_branch_spec(spec))
    assert ROLE in {role.name for role in running.roles}
    await engine.ensure_suspended(spec.endpoint_id)
    assert await engine.read_branch_contents(make_branch_spec(spec)) == running
    assert spec.endpoint_id not in (await engine.observe()).running_endpoints
