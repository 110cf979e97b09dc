"""The platform's sessions in a database run no code of its owner, whatever the owner defined or set there."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from bough.domain.catalog_change import AlterDatabase, CreateRole, DeleteAllRows, DropRole, SetPassword
from bough.engine.local.computes.session import open_session
from bough.engine.local.folders import Folders
from bough.engine.port import DEFAULT_CONTENTS_QUERY, Readiness
from bough.engine.spec import build_compute_settings
from bough.postgres import ADMIN_ROLE, collations, preload_libraries
from support.engine_home import DATABASE, ROLE, VERIFIER, Compute, EngineHome, make_branch_spec

# `traced` gets a row from each function of the tenant that a superuser calls.
TRAPS = (
    "create table public.traced (what text)",
    """create function public.trace(what text) returns boolean language plpgsql as $$
       begin
           if (select rolsuper from pg_catalog.pg_roles where rolname operator(pg_catalog.=) current_user) then
               insert into public.traced values (what);
           end if;
           return true;
       end $$""",
    """create function public.on_event() returns event_trigger language plpgsql as
       $$ begin perform public.trace(tg_event); end $$""",
    *(
        f"""create function public.compare_{number}({left}, {right}) returns boolean language sql as
            $$ select public.trace('{operator}') $$;
            create operator public.{operator} (leftarg = {left}, rightarg = {right}, function = public.compare_{number})
        """
        for number, (operator, left, right) in enumerate(
            (operator, *types)
            for operator in ("=", "<>", ">", "!~")
            for types in (("name", "text"), ("name", "name"), ("oid", "oid"), ("int", "int"), ("text", "text"))
        )
    ),
    *(
        f"create function public.{name} returns {returned} language sql as $$ select public.trace('{name}'); {body} $$"
        for name, returned, body in (
            ("starts_with(name, text)", "boolean", "select true"),
            ("namesend(name)", "bytea", "select ''::bytea"),
            ("current_database()", "name", "select ''::name"),
            ("count(bigint)", "bigint", "select 0::bigint"),
        )
    ),
    "create view public.pg_extension as select ''::name as extname, public.trace('view')::text as extversion",
    "create view public.pg_class as select public.trace('view') as relname",
    "alter database neondb set search_path = public, pg_catalog",
    "alter database neondb set role = 'neondb_owner'",
    "alter database neondb set default_transaction_read_only = on",
)
EVENTS = ("login", "ddl_command_start", "ddl_command_end", "sql_drop", "table_rewrite")
REFUSED = (
    "create event trigger own on login execute function public.on_event()",
    "alter database neondb set session_preload_libraries = 'x'",
    "alter database neondb set event_triggers = on",
    f"alter role {ADMIN_ROLE} in database neondb set search_path = public",
    f"alter role {ADMIN_ROLE} set search_path = public",
    "alter role all set search_path = public",
)
WHAT_RAN = "select pg_catalog.array_agg(what) from public.traced"


@pytest.fixture
async def hostile(home: EngineHome) -> AsyncIterator[Compute]:
    compute = await home.create_compute()
    async with compute.connect() as db:
        for statement in TRAPS:
            await db.execute(statement)
    yield compute
    await compute.suspend()


async def create_event_triggers(compute: Compute) -> None:
    """Only a superuser can, such as an operator who restores a dump."""
    async with compute.connect(ADMIN_ROLE) as db:
        await db.execute("set role none; set default_transaction_read_only = off")
        for event in EVENTS:
            await db.execute(f"create event trigger own_{event} on {event} execute function public.on_event()")


async def assert_nothing_ran(compute: Compute) -> None:
    async with compute.connect() as db:
        assert await db.fetchval(WHAT_RAN) is None
        superusers = "select pg_catalog.array_agg(rolname::text) from pg_catalog.pg_roles where rolsuper"
        assert await db.fetchval(superusers) == [ADMIN_ROLE]


async def test_a_tenant_cannot_decide_what_a_superuser_loads_or_runs(hostile: Compute) -> None:
    async with hostile.connect() as db:
        await db.execute("set default_transaction_read_only = off")
        for statement in REFUSED:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await db.execute(statement)


async def test_the_sessions_of_the_platform_run_no_code_of_the_tenant(home: EngineHome, hostile: Compute) -> None:
    await create_event_triggers(hostile)
    engine, branch, endpoint = home.engine, make_branch_spec(hostile.spec), hostile.spec.endpoint_id
    await engine.apply_change(branch, CreateRole(name="other", verifier=VERIFIER))
    await engine.apply_change(branch, SetPassword(name="other", verifier=VERIFIER))
    async with hostile.connect() as db:
        await db.execute("set default_transaction_read_only = off")
        await db.execute("grant create on database neondb to other")
    async with hostile.connect("other") as db:
        await db.execute("set default_transaction_read_only = off")
        await db.execute("create schema others; create table others.numbers as select 1 as n")
    await engine.apply_change(branch, DropRole(name="other"))
    await engine.apply_change(branch, AlterDatabase(name=DATABASE, new_name=DATABASE, owner=ROLE))
    assert await engine.read_compute_contents(endpoint, DEFAULT_CONTENTS_QUERY) is not None
    assert await engine.measure_usage(endpoint) is not None
    assert await engine.measure_storage(endpoint) is not None
    assert await engine.is_busy(endpoint) is False
    await engine.check_all_extensions()
    async with open_session(Folders(home.settings).socket_folder(endpoint), DATABASE, 17) as session:
        assert await session.fetch(collations.SELECT_INDEXES) == []
    logical = build_compute_settings(0.25, logical_replication=True)
    assert await hostile.start(settings=logical) is Readiness.READY
    await assert_nothing_ran(hostile)
    child = await home.create_child(hostile)
    await engine.apply_change(make_branch_spec(child.spec), DeleteAllRows())
    assert await child.start() is Readiness.READY
    await assert_nothing_ran(child)
    async with hostile.connect(ADMIN_ROLE) as db:
        await db.execute("set role none; set default_transaction_read_only = off")
        await db.execute("create table public.unprotected ()")
        assert "ddl_command_end" in await db.fetchval(WHAT_RAN), "the traps do not work, so this test shows nothing"


async def test_statements_with_passwords_are_not_counted(home: EngineHome) -> None:
    compute = await home.create_branch()
    settings = {**compute.spec.settings, **preload_libraries.build_settings(["pg_stat_statements"])}
    assert await compute.start(settings=settings) is Readiness.READY
    await home.engine.apply_change(make_branch_spec(compute.spec), CreateRole(name="other", verifier=VERIFIER))
    async with compute.connect() as db:
        await db.execute("create extension pg_stat_statements; create role mine password 'x'")
        texts = [row[0] for row in await db.fetch("select query from pg_stat_statements where query ilike '%role%'")]
    assert any("mine" in text for text in texts), "nothing is counted, so this test shows nothing"
    assert not any("other" in text or "SCRAM" in text for text in texts)
