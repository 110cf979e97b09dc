"""The contract of every engine, tested through the port only, on every volume driver."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from bough import clock
from bough.engine.port import Engine, EngineError, ObservedDatabase, ObservedRole, Readiness, VolumeHasDependents
from bough.engine.spec import ComputeSpec, DatabaseSpec, RoleSpec, build_compute_settings
from bough.ids import EndpointId, ProjectId, VolumeId
from contracts.engines import connect, create_child, start_compute
from support.engine_home import DATABASE, ROLE, VERIFIER, kill_postmaster_of, make_branch_spec


async def test_it_tells_what_it_can_do(engine: Engine) -> None:
    capabilities = engine.capabilities()
    assert capabilities.installs[17]
    assert capabilities.storage_driver
    assert capabilities == engine.capabilities()


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


async def test_it_observes_what_is_there(engine: Engine, spec: ComputeSpec) -> None:
    await engine.ensure_branch(make_branch_spec(spec))
    observation = await engine.observe()
    assert spec.volume_id in observation.volumes
    assert spec.endpoint_id not in observation.running_endpoints

    await engine.ensure_running(spec)
    assert spec.endpoint_id in (await engine.observe()).running_endpoints

    await engine.ensure_suspended(spec.endpoint_id)
    assert spec.endpoint_id not in (await engine.observe()).running_endpoints


async def test_usage_is_told_only_while_it_runs(engine: Engine, spec: ComputeSpec) -> None:
    assert await engine.measure_usage(spec.endpoint_id) is None
    await start_compute(engine, spec)
    before = await engine.measure_usage(spec.endpoint_id)
    async with await connect(engine, spec) as db:
        await db.execute("create table large as select repeat('x', 1000) from generate_series(1, 10000)")
    after = await engine.measure_usage(spec.endpoint_id)
    assert before is not None
    assert after is not None
    assert after.logical_bytes > before.logical_bytes + 5_000_000
    assert after.started_at == before.started_at <= clock.now()


async def test_memory_that_a_session_takes_is_seen(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    before = await engine.measure_usage(spec.endpoint_id)
    async with await connect(engine, spec) as db:
        await db.execute("set work_mem = '256MB'")
        cursor = "select array_agg(n order by n desc) from generate_series(1, 2000000) n"
        async with db.transaction():
            await db.execute(f"declare large cursor for {cursor}; fetch large")
            during = await engine.measure_usage(spec.endpoint_id)
    assert before is not None
    assert during is not None
    assert 1_000_000 < before.memory_bytes < 500_000_000
    assert during.memory_bytes > before.memory_bytes + 10_000_000


async def test_two_branches_do_not_see_each_other(engine: Engine, spec: ComputeSpec) -> None:
    other = replace(spec, endpoint_id=EndpointId.new(), volume_id=VolumeId.new())
    await start_compute(engine, spec)
    await start_compute(engine, other)
    async with await connect(engine, spec) as db:
        await db.execute("create table mine ()")
    async with await connect(engine, other) as db:
        assert await db.fetchval("select to_regclass('mine')") is None


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


async def test_running_without_a_volume_is_refused(engine: Engine, spec: ComputeSpec) -> None:
    with pytest.raises(EngineError, match="does not exist") as refused:
        await engine.ensure_running(spec)
    assert not refused.value.transient


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


async def test_contents_are_told_as_sql_has_made_them(engine: Engine, spec: ComputeSpec) -> None:
    assert await engine.read_compute_contents(spec.endpoint_id) is None
    await start_compute(engine, spec)
    contents = await engine.read_compute_contents(spec.endpoint_id)
    assert contents is not None
    assert contents.roles == (ObservedRole(name=ROLE, can_login=True, verifier=VERIFIER, valid_until=None),)
    assert contents.databases == (ObservedDatabase(name=DATABASE, owner=ROLE),)
    async with await connect(engine, spec) as db:
        await db.execute("""
            create role made login valid until '2031-01-01 00:00:00+00';
            create role sleeper nologin;
            create role "Ödd ""name" login password 'x' valid until 'infinity';
            create role over login valid until '-infinity';
            create role later login valid until '200000-01-01';
        """)
        await db.execute('create database "it\'s"')
    found = await read_roles(engine, spec)
    assert found.keys() == {ROLE, "made", "sleeper", 'Ödd "name', "over", "later"}
    made = ObservedRole(name="made", can_login=True, verifier=None, valid_until=datetime(2031, 1, 1, tzinfo=UTC))
    assert found["made"] == made
    assert not found["sleeper"].can_login
    assert (found['Ödd "name'].verifier or "").startswith("SCRAM-SHA-256$")
    assert found['Ödd "name'].valid_until is found["later"].valid_until is None
    assert found["over"].valid_until == datetime(1970, 1, 1, tzinfo=UTC)
    assert await read_owners(engine, spec) == {DATABASE: ROLE, "it's": ROLE}
    async with await connect(engine, spec) as db:
        await db.execute("drop role made; alter role over nologin; alter role later rename to renamed")
        await db.execute(f"create role heir; grant heir to {ROLE} with set true")
        await db.execute('alter database "it\'s" owner to heir')
        await db.execute('alter database "it\'s" rename to its')
    found = await read_roles(engine, spec)
    assert found.keys() == {ROLE, "sleeper", 'Ödd "name', "over", "renamed", "heir"}
    assert not found["over"].can_login
    assert await read_owners(engine, spec) == {DATABASE: ROLE, "its": "heir"}


async def test_a_name_that_is_no_text_keeps_nobody_from_being_read(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    async with await connect(engine, spec) as db:
        await db.execute("create database latin encoding 'LATIN1' locale_provider libc locale 'C' template template0")
    async with await connect(engine, spec, ROLE, "latin") as db:
        await db.execute('create role "été" login')
        await db.execute('create database "dépôt"')
    assert await read_roles(engine, spec) == {
        ROLE: ObservedRole(name=ROLE, can_login=True, verifier=VERIFIER, valid_until=None)
    }
    assert await read_owners(engine, spec) == {DATABASE: ROLE, "latin": ROLE}
    more = replace(spec, roles=(*spec.roles, RoleSpec(name="writer", verifier=VERIFIER)))
    assert await engine.ensure_running(more) is Readiness.READY


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


async def count_up(db: Any, stop: asyncio.Event) -> None:
    number = 0
    while not stop.is_set():
        number += 1
        await db.execute("insert into counted values ($1, repeat('x', 500))", number)


async def count_committed(engine: Engine, spec: ComputeSpec) -> int:
    async with await connect(engine, spec) as db:
        return int(await db.fetchval("select count(*) from counted"))


async def read_roles(engine: Engine, spec: ComputeSpec) -> dict[str, ObservedRole]:
    contents = await engine.read_compute_contents(spec.endpoint_id)
    return {role.name: role for role in contents.roles} if contents else {}


async def read_owners(engine: Engine, spec: ComputeSpec) -> dict[str, str]:
    contents = await engine.read_compute_contents(spec.endpoint_id)
    return {database.name: database.owner for database in contents.databases} if contents else {}
