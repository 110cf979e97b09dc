"""Numbered rows, each with a commit of its own, and going back to them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from bough.domain.history import Point
from bough.engine.local.history.bases import Base
from bough.engine.local.history.planning import plans
from bough.engine.port import Origin, Readiness
from bough.ids import BranchId, EndpointId, VolumeId
from engine.homes import Compute, branch_of

FILL = "create table filling as select md5(random()::text) from generate_series(1, {rows})"
MB_OF_ROWS = 20_000  # in the WAL, about


@dataclass(frozen=True)
class Mark:
    """A commit, and how one says that one wants to have it, and not the next."""

    number: int
    at: datetime
    lsn: str

    @property
    def points(self) -> tuple[Point, Point]:
        return Point(lsn=self.lsn), Point(at=self.at)


async def write(compute: Compute, count: int) -> list[Mark]:
    """Rows with the next numbers."""
    async with compute.connect() as db:
        await db.execute("create table if not exists numbers (n int primary key)")
        return [await write_one(db) for _ in range(count)]


async def write_one(db: Any) -> Mark:
    number = await db.fetchval("insert into numbers select coalesce(max(n), 0) + 1 from numbers returning n")
    lsn = await db.fetchval("select pg_current_wal_insert_lsn()::text")
    return Mark(number, await db.fetchval("select clock_timestamp()"), lsn)


async def fill(compute: Compute, megabytes: int) -> None:
    """WAL that has nothing to do with the numbers."""
    async with compute.connect() as db:
        for _ in range(megabytes):
            await db.execute(f"begin; {FILL.format(rows=MB_OF_ROWS)}; rollback")


async def numbers(compute: Compute) -> list[int]:
    async with compute.connect() as db:
        if not await db.fetchval("select to_regclass('numbers') is not null"):
            return []
        return [row["n"] for row in await db.fetch("select n from numbers order by n")]


def planned(parent: Compute) -> Compute:
    """A branch of the same project, of which nothing is there yet."""
    own = replace(parent.spec, endpoint_id=EndpointId.new(), volume_id=VolumeId.new(), branch_id=BranchId.new())
    compute = Compute(parent.home, own)
    parent.home.computes.append(compute)
    return compute


async def begin_at(parent: Compute, point: Point) -> tuple[Compute, Origin]:
    """A branch as its parent was at the point; its compute was never started."""
    compute = planned(parent)
    return compute, await again(compute, parent, point)


async def again(compute: Compute, parent: Compute, point: Point) -> Origin:
    spec = replace(branch_of(compute.spec), parent=parent.spec.volume_id, point=point)
    return await compute.home.engine.ensure_branch(spec)


async def back(parent: Compute, point: Point) -> Compute:
    """The same, and its compute runs."""
    compute, _ = await begin_at(parent, point)
    assert await compute.run() is Readiness.READY
    return compute


async def seen_at(parent: Compute, point: Point) -> list[int]:
    """The numbers that were there at the point; nothing of the look is left."""
    compute = await back(parent, point)
    found = await numbers(compute)
    await compute.suspend()
    await compute.absent()
    parent.home.computes.remove(compute)
    return found


def up_to(mark: Mark) -> list[int]:
    return list(range(1, mark.number + 1))


def before(marks: Sequence[Mark]) -> Point:
    return Point(at=marks[0].at - timedelta(hours=1))


async def take_base(compute: Compute) -> Base:
    engine, volume = compute.home.engine, compute.spec.volume_id
    record = engine._histories.archives.record(volume)
    assert record is not None
    base = await engine._histories.bases.take(volume, record, await engine._offer.pinned(compute.spec.install))
    assert base is not None
    return base


def first_way(compute: Compute, point: Point) -> object:
    """What a recovery would begin with."""
    ancestry = compute.home.engine._histories.recovering._lives.of(compute.spec.volume_id)
    return plans(ancestry.lives, ancestry.template, point)[0].begins
