"""Tables of numbers, one commit per number, and branches at those commits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from bough.domain.history import Point
from bough.engine.local.history.bases import Base
from bough.engine.local.history.recovery_plan import plan_recovery
from bough.engine.port import Origin, Readiness
from bough.ids import BranchId, EndpointId, VolumeId
from support.engine_home import Compute, make_branch_spec
from support.history import read_ancestry, take_base

FILLER_SQL = "create table filling as select md5(random()::text) from generate_series(1, {rows})"
FILLER_ROWS_PER_MB = 20_000  # of WAL, roughly


@dataclass(frozen=True)
class CommitMark:
    """A commit, and the points that include it but not the next one."""

    number: int
    at: datetime
    lsn: str

    @property
    def points(self) -> tuple[Point, Point]:
        return Point(lsn=self.lsn), Point(at=self.at)


async def insert_numbers(compute: Compute, count: int) -> list[CommitMark]:
    """Insert the next numbers, one commit each."""
    async with compute.connect() as db:
        await db.execute("create table if not exists numbers (n int primary key)")
        return [await insert_number(db) for _ in range(count)]


async def insert_number(db: Any) -> CommitMark:
    number = await db.fetchval("insert into numbers select coalesce(max(n), 0) + 1 from numbers returning n")
    lsn = await db.fetchval("select pg_current_wal_insert_lsn()::text")
    return CommitMark(number, await db.fetchval("select clock_timestamp()"), lsn)


async def write_filler_wal(compute: Compute, megabytes: int) -> None:
    """Write WAL that does not change the numbers."""
    async with compute.connect() as db:
        for _ in range(megabytes):
            await db.execute(f"begin; {FILLER_SQL.format(rows=FILLER_ROWS_PER_MB)}; rollback")


async def read_numbers(compute: Compute) -> list[int]:
    async with compute.connect() as db:
        if not await db.fetchval("select to_regclass('numbers') is not null"):
            return []
        return [row["n"] for row in await db.fetch("select n from numbers order by n")]


def plan_branch(parent: Compute) -> Compute:
    """Return a branch of the same project that is not created yet."""
    spec = replace(parent.spec, endpoint_id=EndpointId.new(), volume_id=VolumeId.new(), branch_id=BranchId.new())
    compute = Compute(parent.home, spec)
    parent.home.computes.append(compute)
    return compute


async def create_branch_at(parent: Compute, point: Point) -> tuple[Compute, Origin]:
    """Create a branch as its parent was at the point, without starting its compute."""
    compute = plan_branch(parent)
    return compute, await ensure_branch_at(compute, parent, point)


async def ensure_branch_at(compute: Compute, parent: Compute, point: Point) -> Origin:
    spec = replace(make_branch_spec(compute.spec), source_volume_id=parent.spec.volume_id, point=point)
    return await compute.home.engine.ensure_branch(spec)


async def start_branch_at(parent: Compute, point: Point) -> Compute:
    """Create such a branch and start its compute."""
    compute, _ = await create_branch_at(parent, point)
    assert await compute.start() is Readiness.READY
    return compute


async def read_numbers_at(parent: Compute, point: Point) -> list[int]:
    """Return the numbers that existed at the point, and remove the branch that was needed to read them."""
    compute = await start_branch_at(parent, point)
    numbers = await read_numbers(compute)
    await compute.suspend()
    await compute.delete()
    parent.home.computes.remove(compute)
    return numbers


def numbers_up_to(mark: CommitMark) -> list[int]:
    return list(range(1, mark.number + 1))


def point_before(marks: Sequence[CommitMark]) -> Point:
    return Point(at=marks[0].at - timedelta(hours=1))


async def take_base_backup(compute: Compute) -> Base:
    base = await take_base(compute)
    assert base is not None
    return base


def get_recovery_start(compute: Compute, point: Point) -> object:
    """Return the base or template that a recovery starts from."""
    ancestry = read_ancestry(compute)
    return plan_recovery(ancestry.lineages, ancestry.template, point)[0].start
