"""Numbered rows, each with a commit of its own, and going back to them."""

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

FILLER_SQL = "create table filling as select md5(random()::text) from generate_series(1, {rows})"
FILLER_ROWS_PER_MB = 20_000  # in the WAL, about


@dataclass(frozen=True)
class CommitMark:
    """A commit, and how one says that one wants to have it, and not the next."""

    number: int
    at: datetime
    lsn: str

    @property
    def points(self) -> tuple[Point, Point]:
        return Point(lsn=self.lsn), Point(at=self.at)


async def insert_numbers(compute: Compute, count: int) -> list[CommitMark]:
    """Rows with the next numbers."""
    async with compute.connect() as db:
        await db.execute("create table if not exists numbers (n int primary key)")
        return [await insert_number(db) for _ in range(count)]


async def insert_number(db: Any) -> CommitMark:
    number = await db.fetchval("insert into numbers select coalesce(max(n), 0) + 1 from numbers returning n")
    lsn = await db.fetchval("select pg_current_wal_insert_lsn()::text")
    return CommitMark(number, await db.fetchval("select clock_timestamp()"), lsn)


async def write_filler_wal(compute: Compute, megabytes: int) -> None:
    """WAL that has nothing to do with the numbers."""
    async with compute.connect() as db:
        for _ in range(megabytes):
            await db.execute(f"begin; {FILLER_SQL.format(rows=FILLER_ROWS_PER_MB)}; rollback")


async def read_numbers(compute: Compute) -> list[int]:
    async with compute.connect() as db:
        if not await db.fetchval("select to_regclass('numbers') is not null"):
            return []
        return [row["n"] for row in await db.fetch("select n from numbers order by n")]


def plan_branch(parent: Compute) -> Compute:
    """A branch of the same project, of which nothing is there yet."""
    own = replace(parent.spec, endpoint_id=EndpointId.new(), volume_id=VolumeId.new(), branch_id=BranchId.new())
    compute = Compute(parent.home, own)
    parent.home.computes.append(compute)
    return compute


async def create_branch_at(parent: Compute, point: Point) -> tuple[Compute, Origin]:
    """A branch as its parent was at the point; its compute was never started."""
    compute = plan_branch(parent)
    return compute, await ensure_branch_at(compute, parent, point)


async def ensure_branch_at(compute: Compute, parent: Compute, point: Point) -> Origin:
    spec = replace(make_branch_spec(compute.spec), parent=parent.spec.volume_id, point=point)
    return await compute.home.engine.ensure_branch(spec)


async def start_branch_at(parent: Compute, point: Point) -> Compute:
    """The same, and its compute runs."""
    compute, _ = await create_branch_at(parent, point)
    assert await compute.start() is Readiness.READY
    return compute


async def read_numbers_at(parent: Compute, point: Point) -> list[int]:
    """The numbers that were there at the point; nothing of the look is left."""
    compute = await start_branch_at(parent, point)
    found = await read_numbers(compute)
    await compute.suspend()
    await compute.delete()
    parent.home.computes.remove(compute)
    return found


def numbers_up_to(mark: CommitMark) -> list[int]:
    return list(range(1, mark.number + 1))


def point_before(marks: Sequence[CommitMark]) -> Point:
    return Point(at=marks[0].at - timedelta(hours=1))


async def take_base_backup(compute: Compute) -> Base:
    engine, volume = compute.home.engine, compute.spec.volume_id
    record = engine._history._archives.read_record(volume)
    assert record is not None
    base = await engine._history._bases.take(
        volume, record, await engine._install_catalog.require_install(compute.spec.install)
    )
    assert base is not None
    return base


def get_recovery_start(compute: Compute, point: Point) -> object:
    """What a recovery would begin with."""
    ancestry = compute.home.engine._history._recovery._lineages.read(compute.spec.volume_id)
    return plan_recovery(ancestry.lineages, ancestry.template, point)[0].start
