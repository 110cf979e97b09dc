"""Computes: the part of the engine contract that ComputeEngine declares, on every volume driver."""

import asyncio
from dataclasses import replace

import asyncpg
import pytest

from bough.engine.port import Engine, EngineError, Readiness
from bough.engine.spec import ComputeSpec, DatabaseSpec, RoleSpec, build_compute_settings
from contracts.engines import connect, start_compute
from support.engine_home import DATABASE, ROLE, VERIFIER


async def test_new_roles_and_databases_appear_when_asked_again(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    more = replace(
        spec,
        roles=(*spec.roles, RoleSpec(name="writer", verifier=VERIFIER)),
        databases=(*spec.databases, DatabaseSpec(name="diary", owner="writer")),
    )
    assert await engine.ensure_running(more) is Readiness.READY
    async with await connect(engine, spec, "writer", "diary") as db:
        assert await db.fetchval("select current_user || '@' || current_database()") == "writer@diary"


async def test_changed_settings_are_in_force_when_it_returns(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    larger = replace(spec, settings=build_compute_settings(1, logical_replication=True))
    assert await engine.ensure_running(larger) is Readiness.READY
    async with await connect(engine, spec) as db:
        assert await db.fetchval("show wal_level") == "logical"
        assert await db.fetchval("show shared_buffers") == "64MB"


async def test_running_without_a_volume_is_refused(engine: Engine, spec: ComputeSpec) -> None:
    with pytest.raises(EngineError, match="does not exist") as refused:
        await engine.ensure_running(spec)
    assert not refused.value.transient


async def test_roles_that_postgres_knows_are_left_alone(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    async with await connect(engine, spec) as db:
        await db.execute(f"create role made login; alter role {ROLE} password 'changed'")
    changed = await engine.read_compute_contents(spec.endpoint_id)
    known = tuple(RoleSpec(name=name, verifier=None) for name in (ROLE, "made", "dropped"))
    await engine.ensure_suspended(spec.endpoint_id)
    assert await engine.ensure_running(replace(spec, roles=known)) is Readiness.READY
    assert await engine.read_compute_contents(spec.endpoint_id) == changed


async def test_it_is_busy_while_a_client_is_at_work(engine: Engine, spec: ComputeSpec) -> None:
    assert not await engine.is_busy(spec.endpoint_id)
    await start_compute(engine, spec)
    assert not await engine.is_busy(spec.endpoint_id)
    async with await connect(engine, spec) as db:
        await db.execute("create table t (n int); listen news")
        assert not await engine.is_busy(spec.endpoint_id), "an idle connection is not busy"
        await db.execute("begin")
        assert await engine.is_busy(spec.endpoint_id), "an open transaction"
        with pytest.raises(asyncpg.PostgresError):
            await db.execute("select 1/0")
        assert await engine.is_busy(spec.endpoint_id), "a failed transaction that is still open"
        await db.execute("rollback")
        assert not await engine.is_busy(spec.endpoint_id)
        pid = await db.fetchval("select pg_backend_pid()")
        sleeping = asyncio.create_task(db.execute("select pg_sleep(60)"))
        await wait_until_busy(engine, spec, True)
        async with await connect(engine, spec) as other:
            await other.execute("select pg_cancel_backend($1)", pid)
        with pytest.raises(asyncpg.QueryCanceledError):
            await sleeping
        assert not await engine.is_busy(spec.endpoint_id)


async def test_a_replication_connection_keeps_it_busy(engine: Engine, spec: ComputeSpec) -> None:
    spec = replace(spec, settings=build_compute_settings(0.25, logical_replication=True))
    await start_compute(engine, spec)
    address = await engine.find_address(spec.endpoint_id)
    assert address is not None
    client = await asyncpg.connect(
        host=address.host,
        port=address.port,
        user=ROLE,
        database=DATABASE,
        password="",
        server_settings={"replication": "database"},
    )
    try:
        assert await engine.is_busy(spec.endpoint_id)
    finally:
        client.terminate()
    await wait_until_busy(engine, spec, False)


async def wait_until_busy(engine: Engine, spec: ComputeSpec, expected: bool) -> None:
    async with asyncio.timeout(10):
        while await engine.is_busy(spec.endpoint_id) is not expected:  # noqa: ASYNC110  only Postgres knows
            await asyncio.sleep(0.01)
