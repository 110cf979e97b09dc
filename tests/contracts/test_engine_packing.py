"""The contract of packing: branches are packed and unpacked through the engine port, on every volume driver."""

from dataclasses import replace

import pytest

from bough.domain.catalog_change import CreateDatabase
from bough.engine.port import Engine, EngineError, Readiness
from bough.engine.spec import ComputeSpec
from bough.ids import VolumeId
from contracts.engines import connect, create_child, start_compute
from support.engine_home import make_branch_spec


async def fill(engine: Engine, spec: ComputeSpec, table: str, rows: int) -> None:
    async with await connect(engine, spec) as db:
        await db.execute(f"create table {table} as select n, md5(n::text) as text from generate_series(1, {rows}) n")


async def count_rows(engine: Engine, spec: ComputeSpec, table: str) -> int:
    async with await connect(engine, spec) as db:
        return int(await db.fetchval(f"select count(*) from {table}"))


async def pack(engine: Engine, spec: ComputeSpec) -> None:
    await engine.ensure_packed(spec.project_id, spec.volume_id)


async def unpack(engine: Engine, spec: ComputeSpec) -> None:
    await engine.ensure_unpacked(spec.project_id, spec.volume_id)


async def test_it_gives_most_of_its_disk_back_and_comes_back_as_it_was(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    await fill(engine, spec, "wide", 60_000)
    await engine.ensure_suspended(spec.endpoint_id)
    before = await engine.measure_volume(spec.volume_id)
    for _ in range(2):
        await pack(engine, spec)
    after = await engine.measure_volume(spec.volume_id)
    assert before is not None
    assert after is not None
    assert after < before * 0.8
    assert spec.volume_id in (await engine.observe()).volumes
    for _ in range(2):
        await unpack(engine, spec)
    assert await engine.ensure_running(spec) is Readiness.READY
    assert await count_rows(engine, spec, "wide") == 60_000


async def test_until_then_nobody_opens_it(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    await engine.ensure_suspended(spec.endpoint_id)
    await pack(engine, spec)
    copy = replace(make_branch_spec(spec), volume_id=VolumeId.new(), source_volume_id=spec.volume_id)
    for call in (
        engine.ensure_running(spec),
        engine.ensure_branch(copy),
        engine.read_branch_contents(make_branch_spec(spec)),
        engine.apply_change(make_branch_spec(spec), CreateDatabase(name="other", owner="neondb_owner")),
        engine.retire_volume(spec.project_id, spec.volume_id),
    ):
        with pytest.raises(EngineError, match="archived") as error:
            await call
        assert not error.value.transient
    assert copy.volume_id not in (await engine.observe()).volumes
    await unpack(engine, spec)
    await engine.ensure_branch(copy)
    assert await engine.ensure_running(spec) is Readiness.READY


async def test_a_child_that_hardly_differs_from_its_parent_gives_back_what_it_can(
    engine: Engine, spec: ComputeSpec
) -> None:
    await start_compute(engine, spec)
    await fill(engine, spec, "inherited", 50_000)
    child = await create_child(engine, spec)
    assert await engine.ensure_running(child) is Readiness.READY
    await fill(engine, child, "own", 10)
    await engine.ensure_suspended(child.endpoint_id)
    before = await engine.measure_volume(child.volume_id)
    await pack(engine, child)
    after = await engine.measure_volume(child.volume_id)
    assert before is not None
    assert after is not None
    assert after <= before + 8192, "only the file that says it is archived is added"
    with pytest.raises(EngineError, match="archived"):
        await engine.ensure_running(child)
    assert await count_rows(engine, spec, "inherited") == 50_000, "the parent is not affected"
    await unpack(engine, child)
    assert await engine.ensure_running(child) is Readiness.READY
    assert (await count_rows(engine, child, "inherited"), await count_rows(engine, child, "own")) == (50_000, 10)
