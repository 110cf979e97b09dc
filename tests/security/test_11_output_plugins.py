"""Rule 11: roles with REPLICATION can use the output plugins of Postgres and no other library.

Roles have REPLICATION only in projects with logical replication.
"""

from contextlib import suppress
from typing import Any

import asyncpg
import pytest

from bough.domain.catalog_change import CreateRole
from bough.engine.port import Readiness
from bough.engine.spec import DatabaseSpec, RoleSpec, build_compute_settings
from bough.postgres import ADMIN_ROLE, MAINTENANCE_DATABASE, output_plugins, slot_file, template
from security.shared_library import write_library
from support.engine_home import ROLE, VERIFIER, Compute, EngineHome, make_branch_spec, temporary_home

LOGICAL = build_compute_settings(0.25, logical_replication=True)
REPLICATION_ROLES = (
    "select array_agg(rolname::text order by rolname) from pg_roles where rolreplication and not rolsuper"
)
CREATE_SLOT = "select pg_create_logical_replication_slot('taken', $1)"
COPY_SLOT = "select pg_copy_logical_replication_slot('own', 'taken', true, $1)"


@pytest.fixture
async def publisher(home: EngineHome) -> Compute:
    return await home.create_compute(settings=LOGICAL)


async def expect_privilege_error(db: Any, statement: str, *args: object) -> str:
    with pytest.raises(asyncpg.InsufficientPrivilegeError) as error:
        await db.fetchval(statement, *args)
    return str(error.value)


async def restore_state_of_previous_version(compute: Compute) -> None:
    """Restores the state of the previous version: roles have REPLICATION and plugins are not checked."""
    await compute.fetch_value(f"alter role {ROLE} replication", "bough_admin")
    await compute.fetch_value("comment on role bough_admin is null", "bough_admin")
    applied = compute.volume_folder / "applied"
    applied.write_text(" ".join(applied.read_text().split()[:2]))


async def test_a_library_of_the_tenants_never_runs(publisher: Compute) -> None:
    """This holds in existing databases, in copies of both templates and in a copy of a tenant's database."""
    marker = publisher.data_folder / "ran"
    # The data directory is the working directory of the server, so a relative path is enough.
    write_library(publisher.data_folder, marker)
    async with publisher.connect() as db:
        with suppress(asyncpg.PostgresError):
            await db.fetchval(CREATE_SLOT, "./attack.so")
        assert not marker.exists()
        await db.execute("create database of_one")
        await db.execute("create database of_nothing template template0")
        await db.execute("select pg_create_logical_replication_slot('own', 'pgoutput')")
    async with publisher.connect(database="of_one") as db:
        await db.execute("create database of_a_copy template of_nothing")
    for database in ("neondb", "postgres", "of_one", "of_nothing", "of_a_copy"):
        async with publisher.connect(database=database) as db:
            for name in ("./attack.so", "./attack", "pgoutput.so", "$libdir/pgoutput", "auto_explain"):
                assert "is not allowed" in await expect_privilege_error(db, CREATE_SLOT, name)
                assert "is not allowed" in await expect_privilege_error(db, COPY_SLOT, name)
            internal_function = "select bough_create_logical_replication_slot('taken', $1, false, false, false)"
            assert "permission denied for function" in await expect_privilege_error(db, internal_function, "./attack")
    assert not marker.exists()


async def test_allowed_plugins_go_on_working(publisher: Compute) -> None:
    async with publisher.connect() as db:
        await db.execute("create table letters (id int primary key); create publication news for table letters")
        row = await db.fetchrow("select * from pg_create_logical_replication_slot('own', 'test_decoding')")
        assert row["slot_name"] == "own"
        assert row["lsn"]
        named = (
            "select pg_create_logical_replication_slot(plugin => 'pgoutput', slot_name => 'named', twophase => true)"
        )
        await db.execute(named)
        await db.execute("select pg_create_logical_replication_slot('gone', 'pgoutput', true)")
        await db.execute("select pg_copy_logical_replication_slot('own', 'two')")
        await db.execute("select pg_copy_logical_replication_slot('own', 'three', true)")
        await db.execute("select pg_copy_logical_replication_slot('own', 'four', true, 'pgoutput')")
        assert await db.fetchval("select pg_create_logical_replication_slot(null, 'pgoutput')") is None
        await db.execute("insert into letters values (1)")
        changes = await db.fetch("select data from pg_logical_slot_get_changes('own', null, null)")
        assert any("INSERT" in data for (data,) in changes)
    slots = "select array_agg(slot_name::text order by slot_name) from pg_replication_slots"
    assert await publisher.fetch_value(slots) == ["named", "own", "two"]


async def test_without_logical_replication_nobody_may_replicate(home: EngineHome) -> None:
    compute = await home.create_compute()
    await home.engine.apply_change(make_branch_spec(compute.spec), CreateRole(name="app", verifier=VERIFIER))
    assert await compute.fetch_value(REPLICATION_ROLES) is None
    for role in (ROLE, "app"):
        async with compute.connect(role) as db:
            for statement in (
                "alter role current_user replication",
                "create role other replication",
                "select pg_create_physical_replication_slot('taken')",
                "select pg_create_logical_replication_slot('taken', 'pgoutput')",
            ):
                await expect_privilege_error(db, statement)


async def test_it_comes_with_the_setting_to_one_that_runs_and_to_one_that_sleeps(home: EngineHome) -> None:
    for is_suspended in (False, True):
        compute = await home.create_compute()
        await home.engine.apply_change(make_branch_spec(compute.spec), CreateRole(name="app", verifier=VERIFIER))
        await home.engine.apply_change(make_branch_spec(compute.spec), CreateRole(name="crowd", can_login=False))
        await compute.fetch_value("create role by_sql login")
        if is_suspended:
            await compute.suspend()
        assert await compute.start(settings=LOGICAL) is Readiness.READY
        assert await compute.fetch_value(REPLICATION_ROLES) == ["app", ROLE]
        await home.engine.apply_change(make_branch_spec(compute.spec), CreateRole(name="later", verifier=VERIFIER))
        assert await compute.fetch_value(REPLICATION_ROLES) == ["app", "later", ROLE]
        async with compute.connect("by_sql") as db:
            assert "permission denied" in await expect_privilege_error(db, CREATE_SLOT, "pgoutput")


async def test_roles_of_the_last_version_lose_it(home: EngineHome) -> None:
    compute = await home.create_compute()
    await restore_state_of_previous_version(compute)
    await compute.fetch_value("create role other replication")
    assert await compute.start() is Readiness.READY
    assert await compute.fetch_value(REPLICATION_ROLES) is None
    await restore_state_of_previous_version(compute)
    await compute.suspend()
    assert await compute.start() is Readiness.READY
    assert await compute.fetch_value(REPLICATION_ROLES) is None


async def test_a_new_project_from_a_template_of_the_last_version_does_not_have_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    statements = template.setup_statements
    with temporary_home(storage="plain") as settings:
        with monkeypatch.context() as patched:
            patched.setattr(
                template, "setup_statements", lambda major: [*statements(major), f"alter role {ROLE} replication"]
            )
            async with EngineHome.open(settings):
                pass
        async with EngineHome.open(settings) as home:
            other = RoleSpec(name="writer", verifier=VERIFIER)
            diary = DatabaseSpec(name="diary", owner="writer")
            for compute in (await home.create_compute(), await home.create_compute(roles=(other,), databases=(diary,))):
                assert await compute.fetch_value(REPLICATION_ROLES, ADMIN_ROLE, MAINTENANCE_DATABASE) is None
            publisher = await home.create_compute(settings=LOGICAL)
            assert await publisher.fetch_value(REPLICATION_ROLES, ADMIN_ROLE, MAINTENANCE_DATABASE) == [ROLE]


async def test_databases_of_the_last_version_are_limited_and_stay_open_or_closed(home: EngineHome) -> None:
    compute = await home.create_compute()
    async with compute.connect() as db:
        for name in ("open", "closed"):
            await db.execute(f"create database {name}")
        await db.execute("alter database closed allow_connections false")
    await restore_state_of_previous_version(compute)
    assert await compute.start(settings=LOGICAL) is Readiness.READY
    closed_databases = "select array_agg(datname::text order by datname) from pg_database where not datallowconn"
    assert await compute.fetch_value(closed_databases) == ["closed", "template0"]
    await compute.fetch_value("create database copied template closed")
    for database in ("open", "copied", "neondb"):
        async with compute.connect(database=database) as db:
            assert "is not allowed" in await expect_privilege_error(db, CREATE_SLOT, "/tmp/attack")


async def test_a_branch_has_it_from_its_parent_and_is_not_told_again(home: EngineHome, publisher: Compute) -> None:
    child = await home.create_child(publisher)
    assert await child.start() is Readiness.READY
    assert await child.fetch_value(REPLICATION_ROLES) == [ROLE]
    role_comment = "select shobj_description('bough_admin'::regrole, 'pg_authid')"
    assert await child.fetch_value(role_comment) == output_plugins.ROLE_COMMENT
    async with child.connect() as db:
        assert "is not allowed" in await expect_privilege_error(db, CREATE_SLOT, "/tmp/attack")


async def test_a_tenant_cannot_write_the_mark_or_undo_the_limit(home: EngineHome, publisher: Compute) -> None:
    arguments = "(name, name, boolean, boolean, boolean)"
    public_function = f"pg_catalog.pg_create_logical_replication_slot{arguments}"
    internal_function = f"pg_catalog.bough_create_logical_replication_slot{arguments}"
    async with publisher.connect() as db:
        for statement in (
            f"comment on role bough_admin is '{output_plugins.ROLE_COMMENT}'",
            f"drop function {public_function}",
            f"alter function {public_function} security invoker",
            f"alter function {internal_function} rename to mine",
            f"grant execute on function {internal_function} to current_user",
            "drop function pg_catalog.bough_output_plugin(name)",
            "create function pg_catalog.bough_output_plugin(text) returns name language sql as 'select $1'",
            "drop extension plpgsql cascade",
        ):
            await expect_privilege_error(db, statement)


async def test_a_dump_elsewhere_would_know_nothing_of_it(publisher: Compute) -> None:
    """`pg_dump` writes privileges of built-in functions if they differ from those after `initdb`."""
    changed_privileges = """
        select array_agg(proname::text) from pg_proc
          left join pg_init_privs on objoid = pg_proc.oid and classoid = 'pg_proc'::regclass and objsubid = 0
         where pronamespace = 'pg_catalog'::regnamespace and proacl is distinct from initprivs
    """
    assert await publisher.fetch_value(changed_privileges) is None


async def test_servers_that_check_plugins_themselves_are_limited_too(home: EngineHome, publisher: Compute) -> None:
    """Their branch may go back to an earlier build, and clients may connect before anything else."""
    has_own_check = "select count(*) from pg_settings where name = 'output_plugin_libraries'"
    assert await publisher.fetch_value(has_own_check) == 1
    for database in ("neondb", "postgres"):
        has_our_check = "select count(*) from pg_proc where proname = 'bough_output_plugin'"
        assert await publisher.fetch_value(has_our_check, database=database) == 1


async def test_other_major_versions_are_limited_and_have_the_same_files(home: EngineHome) -> None:
    for major in (major for major in home.engine.capabilities().installs if major != 17):
        compute = await home.create_compute(major, settings=LOGICAL)
        async with compute.connect() as db:
            await db.execute("select pg_create_logical_replication_slot('own', 'pgoutput')")
            with pytest.raises(asyncpg.PostgresError, match=r"output plugin|output_plugin_libraries"):
                await db.fetchval(CREATE_SLOT, "/tmp/attack")
        state = (compute.data_folder / "pg_replslot" / "own" / "state").read_bytes()
        assert slot_file.parse_plugin(state) == b"pgoutput"
