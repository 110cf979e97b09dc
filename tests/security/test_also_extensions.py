"""Extensions give a tenant no rights of a superuser, although their scripts and background workers run as one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from bough.domain.catalog_change import CreateRole, DropRole
from bough.engine.port import Readiness
from bough.postgres import ADMIN_ROLE, preload_libraries, scheduled_jobs
from bough.postgres.extensions import catalog
from support.engine_home import ROLE, VERIFIER, Compute, EngineHome, make_branch_spec
from support.replicas import wait_until_equal

MAJOR = 17
PRELOADED = ("pg_stat_statements", "pg_cron", "pg_hint_plan", "pgaudit")
DEFAULT = [each for each in catalog.EXTENSIONS if each.is_in_default_build and each.has_control_file]

# Called in place of a function or operator of Postgres, it takes the rights of whoever calls it.
TAKE_RIGHTS = f"""
    create function public.take_rights() returns boolean language plpgsql as $$
    begin
        if (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then
            execute 'alter role {ROLE} superuser';
        end if;
        return true;
    end $$
"""
IS_SUPERUSER = f"select rolsuper from pg_catalog.pg_roles where rolname = '{ROLE}'"
# Fits better than the function of Postgres in the script of ip4r.
FORMAT = """
    create function own.format(text, regprocedure) returns text language plpgsql as $$
    begin
        perform public.take_rights();
        return pg_catalog.format($1, $2);
    end $$
"""
CREATE_IP4R = "create extension ip4r schema own"
# Whether a session runs the check of a script that waits.
WAITS = "select exists (select from pg_catalog.pg_stat_activity where wait_event = 'PgSleep')"


@asynccontextmanager
async def start_preloaded(home: EngineHome) -> AsyncIterator[Compute]:
    compute = await home.create_branch(MAJOR)
    jobs = scheduled_jobs.build_settings(PRELOADED, database="neondb", is_copy=False)
    settings = {**compute.spec.settings, **jobs, **preload_libraries.build_settings(PRELOADED)}
    assert await compute.start(settings=settings) is Readiness.READY
    async with compute.connect() as db:
        await db.execute(TAKE_RIGHTS)
    yield compute
    await compute.suspend()


async def assert_no_superuser(compute: Compute) -> None:
    assert await compute.fetch_value(IS_SUPERUSER) is False


async def test_a_hint_table_of_the_tenant_is_not_read(home: EngineHome) -> None:
    """pg_hint_plan would read it while it plans the queries in scripts of extensions."""
    async with start_preloaded(home) as compute, compute.connect() as db:
        await db.execute("create schema hint_plan; create table hint_plan.readers (name text)")
        await db.execute(
            """
            create function hint_plan.list_hints() returns setof bigint language plpgsql as $$
            begin
                perform public.take_rights();
                insert into hint_plan.readers values (current_user);
            end $$;
            create view hint_plan.hints as
                select query_id, ''::text as application_name, ''::text as hints
                  from hint_plan.list_hints() as query_id;
            set pg_hint_plan.enable_hint_table = on
            """
        )
        for name in ("pgaudit", "pg_cron"):
            await db.execute(f"create extension {name}")
        await db.execute("create table audited (id int)")
        assert await db.fetchval("select count(*) from hint_plan.readers") == 0
        await assert_no_superuser(compute)


async def test_background_workers_call_no_operators_of_the_tenant(home: EngineHome) -> None:
    async with start_preloaded(home) as compute:
        async with compute.connect() as db:
            await db.execute(
                """
                create schema evil;
                create function evil.equal(bigint, bigint) returns boolean language sql as
                    'select public.take_rights() and $1 operator(pg_catalog.=) $2';
                create operator evil.= (leftarg = bigint, rightarg = bigint, function = evil.equal);
                alter database neondb set search_path = evil, pg_catalog
                """
            )
        await compute.suspend()
        assert await compute.start() is Readiness.READY
        async with compute.connect() as db:
            await db.execute("set search_path = public; create extension pg_cron")
            await db.execute("select cron.schedule('job', '1 second', 'select 1')")
        has_run = "select count(*) > 0 from cron.job_run_details where status operator(pg_catalog.=) 'succeeded'"
        await wait_until_equal(lambda: compute.fetch_value(has_run), True)
        await assert_no_superuser(compute)


async def test_jobs_run_as_roles_that_the_session_may_become(home: EngineHome) -> None:
    async with start_preloaded(home) as compute, compute.connect() as db:
        await db.execute("create extension pg_cron")
        assert await db.fetchval("select cron.schedule('job', '0 3 * * *', 'select 1')")
        for statement in (
            "insert into cron.job (schedule, command, username) values ('1 second', 'select 1', 'bough_admin')",
            "update cron.job set username = 'bough_admin'",
            "select cron.schedule_in_database('job', '1 second', 'select 1', 'neondb', 'bough_admin')",
            "drop trigger check_username on cron.job",
            "create or replace function cron.check_username() returns trigger language sql as ''",
            "alter table cron.job disable trigger all",
        ):
            with pytest.raises(asyncpg.PostgresError):
                await db.execute(statement)
        assert await db.fetchval("select array_agg(distinct username) from cron.job") == [ROLE]
        async with compute.connect(ADMIN_ROLE) as worker:  # as the apply worker of a subscription writes
            await worker.execute(f"set session_replication_role = replica; set session authorization {ROLE}")
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="may not run jobs as"):
                await worker.execute("update cron.job set username = 'bough_admin'")


async def test_scripts_call_no_functions_and_operators_of_the_tenant(home: EngineHome) -> None:
    """A schema with a function that fits better than that of Postgres is refused, but not one with other functions."""
    async with start_preloaded(home) as compute, compute.connect() as db:
        await db.execute(
            """
            create schema with_function; create schema with_operator; create schema with_others;
            create function with_function.current_setting(unknown_type text, variadic others int[]) returns text
                language sql as 'select public.take_rights()::text';
            create function with_operator.joined(text, oid) returns text
                language sql as 'select public.take_rights()::text';
            create operator with_operator.|| (leftarg = text, rightarg = oid, function = with_operator.joined);
            create function with_others.round(double precision, integer) returns text
                language sql as 'select public.take_rights()::text'
            """
        )
        for schema in ("with_function", "with_operator"):
            with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="could call"):
                await db.execute(f"create extension ip4r schema {schema}")
        await db.execute("create extension ip4r schema with_others")
        await assert_no_superuser(compute)


async def test_scripts_see_what_was_checked_at_every_isolation_level(home: EngineHome) -> None:
    """The check would not see the function, because the snapshot of the transaction is older."""
    async with start_preloaded(home) as compute, compute.connect() as db, compute.connect() as other:
        await db.execute("create schema own")
        for level in ("repeatable read", "serializable"):
            await db.execute(f"begin isolation level {level}; select count(*) from pg_catalog.pg_proc")
            await other.execute(FORMAT)
            with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="READ COMMITTED"):
                await db.execute(CREATE_IP4R)
            await db.execute("rollback")
            await other.execute("drop function own.format")
        await db.execute(f"begin isolation level read uncommitted; {CREATE_IP4R}; commit")
        await assert_no_superuser(compute)


async def test_scripts_wait_for_functions_that_are_not_committed(home: EngineHome) -> None:
    """The type would delay the script, after its check, until the function is committed."""
    async with start_preloaded(home) as compute, compute.connect() as db, compute.connect() as other:
        await db.execute("create schema own")
        await other.execute(f"begin; {FORMAT}; savepoint before; create type own.ip4 as (x int)")
        creation = asyncio.create_task(db.execute(CREATE_IP4R))
        await wait_until_equal(lambda: compute.fetch_value(WAITS), True)
        await other.execute("rollback to before; commit")
        with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="could call format"):
            await creation
        await assert_no_superuser(compute)

        await other.execute("drop function own.format; begin; create table own.written (id int)")
        with pytest.raises(asyncpg.ObjectInUseError, match="cannot run while transactions"):
            await db.execute(CREATE_IP4R)
        creation = asyncio.create_task(db.execute(CREATE_IP4R))
        await wait_until_equal(lambda: compute.fetch_value(WAITS), True)
        await other.execute("commit")
        await creation


async def test_no_function_appears_while_a_script_runs(home: EngineHome) -> None:
    """A schema that another session renames is the same."""
    async with start_preloaded(home) as compute, compute.connect() as db, compute.connect() as other:
        await db.execute("create schema own; create schema evil")
        await other.execute(FORMAT.replace("own.", "evil."))
        await other.execute("set lock_timeout = '50ms'")
        await db.execute(f"begin; {CREATE_IP4R}")
        for statement in (
            FORMAT,
            "alter function evil.format set schema own",
            "alter function evil.format rename to masklen",
            "alter schema own rename to former",
            "create operator own.|| (leftarg = text, rightarg = regprocedure, function = evil.format)",
        ):
            with pytest.raises(asyncpg.LockNotAvailableError):
                await other.execute(statement)
        await db.execute("commit")
        await assert_no_superuser(compute)


async def test_a_schema_that_scripts_name_keeps_its_name(home: EngineHome) -> None:
    async with start_preloaded(home) as compute, compute.connect() as db:
        await db.execute("create extension pg_hint_plan version '1.3.0'; alter schema hint_plan rename to other")
        await db.execute("create schema hint_plan")
        with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="must be called hint_plan"):
            await db.execute("alter extension pg_hint_plan update")


async def create_all(db: Any) -> None:
    for each in DEFAULT:
        await db.execute(f"create extension {each.name}")


async def test_objects_of_extensions_give_away_no_rights(home: EngineHome) -> None:
    async with start_preloaded(home) as compute, compute.connect() as db:
        await db.execute(
            f"alter default privileges grant all on tables to {ROLE}; "
            f"alter default privileges grant all on functions to {ROLE}"
        )
        await create_all(db)
        unsafe = """
            select p.oid::regprocedure::text from pg_proc p join pg_roles r on r.oid = p.proowner
             where p.prosecdef and r.rolsuper and p.pronamespace <> 'pg_catalog'::regnamespace
               and not coalesce('search_path=pg_catalog, pg_temp' = any (p.proconfig), false)
        """
        assert [row[0] for row in await db.fetch(unsafe)] == []
        own = f"""
            select p.oid::regprocedure::text from pg_proc p join pg_language l on l.oid = p.prolang
             where p.proowner = '{ROLE}'::regrole and not l.lanpltrusted
        """
        assert [row[0] for row in await db.fetch(own)] == []
        writable = f"""
            select c.oid::regclass::text from pg_class c join pg_roles r on r.oid = c.relowner
             where r.rolsuper and c.relkind in ('r', 'v', 'p')
               and c.relnamespace::regnamespace::text !~ '^pg_|information'
               and has_table_privilege('{ROLE}', c.oid, 'trigger, truncate, references')
        """
        assert [row[0] for row in await db.fetch(writable)] == []
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await db.execute(
                "create function ends() returns event_trigger language plpgsql as 'begin end'; "
                "create event trigger own on ddl_command_end execute function ends()"
            )
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await db.execute("drop event trigger pgaudit_sql_drop")
        await assert_no_superuser(compute)


async def test_the_role_that_created_extensions_can_be_deleted(home: EngineHome) -> None:
    async with start_preloaded(home) as compute:
        await home.engine.apply_change(make_branch_spec(compute.spec), CreateRole(name="creator", verifier=VERIFIER))
        async with compute.connect() as db:
            await db.execute("grant create on database neondb to creator; grant create on schema public to creator")
        async with compute.connect("creator") as db:
            await create_all(db)
        await home.engine.apply_change(make_branch_spec(compute.spec), DropRole(name="creator"))
        assert await compute.fetch_value("select count(*) from pg_extension where extname = 'vector'") == 1
