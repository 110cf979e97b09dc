"""The origin of a branch, tested through the port only, on every volume driver."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import asyncpg

from bough import clock
from bough.engine.port import Engine, Origin, Readiness
from bough.engine.spec import ComputeSpec
from contracts.engines import connect, create_child_with_origin, start_compute
from support.engine_home import kill_postmaster_of, make_branch_spec


async def read_wal_position(db: Any) -> int:
    return int(await db.fetchval("select pg_current_wal_lsn() - '0/0'::pg_lsn"))


async def test_a_branch_of_nothing_began_at_no_moment_but_where_its_wal_does(engine: Engine, spec: ComputeSpec) -> None:
    origin = await engine.ensure_branch(make_branch_spec(spec))
    kept = await engine.apply_retention(spec.volume_id, clock.now() - timedelta(hours=1))
    assert origin == Origin(lsn=kept.began_lsn)
    assert origin.position, "it is known"
    assert await engine.ensure_branch(make_branch_spec(spec)) == origin


async def test_a_child_of_a_running_parent_began_between_two_of_its_commits(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    async with await connect(engine, spec) as db:
        await db.execute("create table kept ()")
        before, began = await read_wal_position(db), clock.now()
        child, origin = await create_child_with_origin(engine, spec)
        ended = clock.now()
        await db.execute("create table later ()")
        after = await read_wal_position(db)
    assert origin.position is not None
    assert before <= origin.position <= after
    assert origin.at is not None
    assert began <= origin.at <= ended
    assert not origin.has_subscriptions
    assert await engine.ensure_branch(make_branch_spec(child)) == origin
    assert await engine.ensure_running(child) is Readiness.READY
    async with await connect(engine, child) as db:
        assert await read_wal_position(db) >= origin.position
    assert await engine.ensure_branch(make_branch_spec(child)) == origin, (
        "writes to the branch do not change its origin"
    )


async def test_a_child_of_a_sleeping_parent_began_where_that_ended(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    async with await connect(engine, spec) as db:
        await db.execute("create table kept ()")
        before = await read_wal_position(db)
    await engine.ensure_suspended(spec.endpoint_id)
    suspended = clock.now()
    child, origin = await create_child_with_origin(engine, spec)
    _, again = await create_child_with_origin(engine, spec)
    assert await engine.ensure_running(spec) is Readiness.READY
    async with await connect(engine, spec) as db:
        after = await read_wal_position(db)
    assert origin.position is not None
    assert before <= origin.position <= after
    assert again.lsn == origin.lsn, "nothing was written in between"
    assert origin.at is not None
    assert origin.at >= suspended
    assert not origin.has_subscriptions
    assert await engine.ensure_branch(make_branch_spec(child)) == origin


async def test_a_child_of_a_child_that_never_ran_began_where_that_did(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    child, origin = await create_child_with_origin(engine, spec)
    _, next_origin = await create_child_with_origin(engine, child)
    assert next_origin.lsn == origin.lsn is not None
    assert not next_origin.has_subscriptions


async def test_of_a_parent_that_was_killed_only_the_moment_is_known(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):  # closing the connection fails
        async with await connect(engine, spec) as db:
            await kill_postmaster_of(await db.fetchval("select pg_backend_pid()"))
    child, origin = await create_child_with_origin(engine, spec)
    assert origin.lsn is None
    assert origin.at is not None
    assert origin.has_subscriptions, "they are unknown, so the branch must be checked"
    assert await engine.ensure_branch(make_branch_spec(child)) == origin
