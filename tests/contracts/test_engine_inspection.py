"""Inspection: the part of the engine contract that EngineInspection declares, on every volume driver."""

from dataclasses import replace
from datetime import UTC, datetime

from bough import clock
from bough.engine.port import Engine, ObservedDatabase, ObservedRole, Readiness
from bough.engine.spec import ComputeSpec, RoleSpec
from contracts.engines import connect, start_compute
from support.engine_home import DATABASE, ROLE, VERIFIER, make_branch_spec


async def test_it_tells_what_it_can_do(engine: Engine) -> None:
    capabilities = engine.capabilities()
    assert capabilities.installs[17]
    assert capabilities.storage_driver
    assert capabilities == engine.capabilities()


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
    created = ObservedRole(name="made", can_login=True, verifier=None, valid_until=datetime(2031, 1, 1, tzinfo=UTC))
    assert found["made"] == created
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


async def read_roles(engine: Engine, spec: ComputeSpec) -> dict[str, ObservedRole]:
    contents = await engine.read_compute_contents(spec.endpoint_id)
    return {role.name: role for role in contents.roles} if contents else {}


async def read_owners(engine: Engine, spec: ComputeSpec) -> dict[str, str]:
    contents = await engine.read_compute_contents(spec.endpoint_id)
    return {database.name: database.owner for database in contents.databases} if contents else {}
