"""Branches: the part of the engine contract that BranchEngine declares, on every volume driver."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from bough.engine.port import Engine, EngineError, Readiness, VolumeHasDependents
from bough.engine.spec import ComputeSpec, DatabaseSpec, RoleSpec, build_compute_settings
from bough.ids import EndpointId, ProjectId, VolumeId
from contracts.engines import connect, create_child, start_compute
from support.engine_home import ROLE, VERIFIER, kill_postmaster_of, make_branch_spec


async def test_the_life_of_a_branch_with_every_verb_twice(engine: Engine, spec: ComputeSpec) -> None:
    await engine.ensure_branch(make_branch_spec(spec))
    await engine.ensure_branch(make_branch_spec(spec))
    assert await engine.ensure_running(spec) is Readiness.READY
    assert await engine.ensure_running(spec) is Readiness.READY
    async with await connect(engine, spec) as db:
        assert (await db.fetchval("show server_version")).startswith("17.")
        await db.execute("create table kept (word text); insert into kept values ('here')")

    await engine.ensure_suspended(spec.endpoint_id)
    await engine.ensure_suspended(spec.endpoint_id)
    assert await engine.find_address(spec.endpoint_id) is None

    assert await engine.ensure_running(spec) is Readiness.READY
    async with await connect(engine, spec) as db:
        assert await db.fetchval("select word from kept") == "here"

    await engine.ensure_suspended(spec.endpoint_id)
    await engine.ensure_absent(spec.project_id, spec.volume_id)
    await engine.ensure_absent(spec.project_id, spec.volume_id)
    assert spec.volume_id not in (await engine.observe()).volumes


async def test_two_branches_do_not_see_each_other(engine: Engine, spec: ComputeSpec) -> None:
    other = replace(spec, endpoint_id=EndpointId.new(), volume_id=VolumeId.new())
    await start_compute(engine, spec)
    await start_compute(engine, other)
    async with await connect(engine, spec) as db:
        await db.execute("create table mine ()")
    async with await connect(engine, other) as db:
        assert await db.fetchval("select to_regclass('mine')") is None


async def test_a_volume_in_use_is_not_removed(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    with pytest.raises(EngineError, match="still runs"):
        await engine.ensure_absent(spec.project_id, spec.volume_id)
    async with await connect(engine, spec) as db:
        assert await db.fetchval("select 1") == 1


async def test_what_was_never_there_can_be_suspended_and_removed(engine: Engine) -> None:
    await engine.ensure_suspended(EndpointId.new())
    await engine.ensure_absent(ProjectId.new(), VolumeId.new())
    assert await engine.find_address(EndpointId.new()) is None


async def test_an_unknown_install_is_refused(engine: Engine, spec: ComputeSpec) -> None:
    with pytest.raises(EngineError, match="embedded-99") as refused:
        await engine.ensure_branch(make_branch_spec(replace(spec, install="embedded-99.0.0")))
    assert not refused.value.transient


async def test_a_child_has_all_that_its_running_parent_committed(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    async with await connect(engine, spec) as db:
        await db.execute("create table kept as select n from generate_series(1, 10000) n")
    child = await create_child(engine, spec)
    async with await connect(engine, spec) as db:
        await db.execute("drop table kept")
    assert await engine.ensure_running(child) is Readiness.READY
    async with await connect(engine, child) as db:
        assert await db.fetchval("select count(*) from kept") == 10000
        await db.execute("create table own ()")
    async with await connect(engine, spec) as db:
        assert await db.fetchval("select to_regclass('own')") is None


async def test_a_child_of_a_sleeping_parent_and_its_own_child(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    async with await connect(engine, spec) as db:
        await db.execute("create table kept as select 'here' as word")
    await engine.ensure_suspended(spec.endpoint_id)
    child = await create_child(engine, spec)
    grandchild = await create_child(engine, child)
    assert await engine.find_address(spec.endpoint_id) is None
    for each in (child, grandchild, spec):
        assert await engine.ensure_running(each) is Readiness.READY
        async with await connect(engine, each) as db:
            assert await db.fetchval("select word from kept") == "here"


async def test_a_child_of_a_child_that_never_ran_has_it_all(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    async with await connect(engine, spec) as db:
        await db.execute("create table kept as select n from generate_series(1, 10000) n")
    child = await create_child(engine, spec)
    grandchild = await create_child(engine, await create_child(engine, child))
    for each in (grandchild, child):
        assert await engine.ensure_running(each) is Readiness.READY
        async with await connect(engine, each) as db:
            assert await db.fetchval("select count(*) from kept") == 10000


async def test_a_child_of_a_killed_parent_has_what_was_committed(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):  # closing the connection fails
        async with await connect(engine, spec) as db:
            await db.execute("create table kept as select 'here' as word")
            await kill_postmaster_of(await db.fetchval("select pg_backend_pid()"))
    child = await create_child(engine, spec)
    assert await engine.ensure_running(child) is Readiness.READY
    async with await connect(engine, child) as db:
        assert await db.fetchval("select word from kept") == "here"


async def test_a_parent_that_is_written_to_is_branched_without_a_loss(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    async with await connect(engine, spec) as db:
        await db.execute("create table counted (n bigint primary key, filler text)")
        stop = asyncio.Event()
        writing = asyncio.create_task(count_up(db, stop))
        children = []
        for _ in range(3):
            before = await count_committed(engine, spec)
            children.append((await create_child(engine, spec), before))
        stop.set()
        await writing
    for child, before in children:
        assert await engine.ensure_running(child) is Readiness.READY
        async with await connect(engine, child) as db:
            highest, rows = await db.fetchrow("select coalesce(max(n), 0), count(*) from counted")
            assert highest == rows, "commits that were made in sequence have a gap"
            assert rows >= before


async def test_roles_and_names_of_the_parent_stay_in_the_child(engine: Engine, spec: ComputeSpec) -> None:
    renamed = replace(
        spec,
        roles=(RoleSpec(name="writer", verifier=VERIFIER),),
        databases=(DatabaseSpec(name="diary", owner="writer"),),
    )
    await start_compute(engine, renamed)
    async with await connect(engine, renamed, "writer", "diary") as db:
        await db.execute(f"create role {ROLE} login")
    child = await create_child(engine, renamed)
    assert await engine.ensure_running(child) is Readiness.READY
    async with await connect(engine, child, "writer", "diary") as db:
        assert await db.fetchval("select count(*) from pg_roles where rolname = $1", ROLE) == 1


async def test_replication_slots_stay_with_the_parent(engine: Engine, spec: ComputeSpec) -> None:
    spec = replace(spec, settings=build_compute_settings(0.25, logical_replication=True))
    await start_compute(engine, spec)
    async with await connect(engine, spec) as db:
        await db.execute("select pg_create_physical_replication_slot('subscriber', true)")
        child = await create_child(engine, spec)
        assert [name for (name,) in await db.fetch("select slot_name from pg_replication_slots")] == ["subscriber"]
    assert await engine.ensure_running(child) is Readiness.READY
    async with await connect(engine, child) as db:
        assert await db.fetch("select slot_name from pg_replication_slots") == []


async def test_a_child_of_nothing_is_refused(engine: Engine, spec: ComputeSpec) -> None:
    with pytest.raises(EngineError, match="parent branch's volume does not exist") as refused:
        await create_child(engine, spec)
    assert not refused.value.transient


async def test_a_parent_goes_before_its_child_only_when_that_has_a_history_of_its_own(
    engine: Engine, spec: ComputeSpec
) -> None:
    await start_compute(engine, spec)
    async with await connect(engine, spec) as db:
        await db.execute("create table kept as select 'here' as word")
    child = await create_child(engine, spec)
    await engine.ensure_suspended(spec.endpoint_id)
    with pytest.raises(VolumeHasDependents) as refused:
        await engine.ensure_absent(spec.project_id, spec.volume_id)
    assert refused.value.transient
    assert (await engine.ensure_history_started(child.project_id, child.volume_id)).began_at is not None
    await engine.ensure_absent(spec.project_id, spec.volume_id)
    assert await engine.ensure_running(child) is Readiness.READY
    async with await connect(engine, child) as db:
        assert await db.fetchval("select word from kept") == "here"


async def count_up(db: Any, stop: asyncio.Event) -> None:
    number = 0
    while not stop.is_set():
        number += 1
        await db.execute("insert into counted values ($1, repeat('x', 500))", number)


async def count_committed(engine: Engine, spec: ComputeSpec) -> int:
    async with await connect(engine, spec) as db:
        return int(await db.fetchval("select count(*) from counted"))
