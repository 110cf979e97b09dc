"""Changes to roles and databases in detail: any name, objects of a dropped role, terminated sessions, crashes."""

import asyncio

import asyncpg
import pytest

from bough.domain.catalog_change import (
    AlterDatabase,
    CatalogChange,
    CreateDatabase,
    CreateRole,
    DropDatabase,
    DropRole,
    ReplacePasswords,
    SetPassword,
)
from bough.engine.local.computes import compute_connection
from bough.engine.port import EngineError
from bough.engine.spec import RoleSpec
from bough.postgres import ADMIN_ROLE, MAINTENANCE_DATABASE
from bough.postgres.scram import scram_verifier
from engine.test_computes import require_system_15
from support.engine_home import DATABASE, ROLE, VERIFIER, Compute, EngineHome, make_branch_spec

HOSTILE = [
    "a\"b'; drop database neondb; --",
    "ünï.cödé",
    "x" * 63,
    "é" * 31,
    "$$",
    "\\",
    "%s %I %%",
    "two words",
    " ",
    "a\nb",
    "/^.*$",
]
OTHER = scram_verifier("another")


async def change(compute: Compute, *changes: CatalogChange) -> None:
    for each in changes:
        await compute.home.engine.apply_change(make_branch_spec(compute.spec), each)


async def contents(compute: Compute) -> tuple[dict[str, str | None], dict[str, str]]:
    """Return the roles with their verifiers and the databases with their owners."""
    listed = await compute.home.engine.read_compute_contents(compute.spec.endpoint_id)
    assert listed is not None
    return {role.name: role.verifier for role in listed.roles}, {each.name: each.owner for each in listed.databases}


@pytest.mark.parametrize("name", HOSTILE)
async def test_any_name_goes_through_every_change(home: EngineHome, name: str) -> None:
    compute = await home.create_compute()
    await change(compute, CreateRole(name=name, verifier=VERIFIER), CreateDatabase(name=name, owner=name))
    assert await contents(compute) == ({ROLE: VERIFIER, name: VERIFIER}, {DATABASE: ROLE, name: name})
    await change(compute, SetPassword(name=name, verifier=OTHER))
    await compute.fetch_value("create table mine ()", name, name)
    await change(compute, AlterDatabase(name=name, new_name="plain", owner=name))
    await change(compute, AlterDatabase(name="plain", new_name=name, owner=ROLE))
    assert await contents(compute) == ({ROLE: VERIFIER, name: OTHER}, {DATABASE: ROLE, name: ROLE})
    await change(compute, ReplacePasswords(verifiers={name: VERIFIER}))
    assert await contents(compute) == ({ROLE: None, name: VERIFIER}, {DATABASE: ROLE, name: ROLE})
    await change(compute, DropRole(name=name))
    assert await compute.fetch_value("select tableowner from pg_tables where tablename = 'mine'", ROLE, name) == ROLE
    await change(compute, DropDatabase(name=name))
    assert await contents(compute) == ({ROLE: None}, {DATABASE: ROLE})
    await change(compute, CreateRole(name=name, can_login=False), CreateRole(name=name, can_login=False))
    assert await contents(compute) == ({ROLE: None, name: None}, {DATABASE: ROLE})


async def test_a_role_of_the_api_can_do_what_the_first_one_can(home: EngineHome) -> None:
    compute = await home.create_compute()
    await change(compute, CreateRole(name="second", verifier=VERIFIER))
    rights = """
        select row(rolcanlogin, rolcreatedb, rolcreaterole, rolbypassrls, rolreplication, rolsuper, rolinherit,
                   pg_has_role(oid, 'bough_tenants', 'member with admin option'))::text
          from pg_roles where rolname = current_user
    """
    assert await compute.fetch_value(rights, "second") == await compute.fetch_value(rights)


async def test_a_group_of_the_api_is_in_the_hands_of_every_tenant(home: EngineHome) -> None:
    compute = await home.create_compute()
    await change(compute, CreateRole(name="readers", can_login=False), CreateRole(name="second", verifier=VERIFIER))
    async with compute.connect() as db:
        await db.execute("""
            create table secret as select 'kept' as word; alter table secret enable row level security;
            grant select on secret to readers; create role app login; grant readers to app;
            set role readers
        """)
        assert await db.fetchval("select current_user") == "readers"
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await db.execute("create role more")
    assert await compute.fetch_value("select has_table_privilege('secret', 'select')", "app") is True
    assert not await compute.fetch_value("select pg_has_role('second', 'readers', 'usage')"), (
        "its privileges belong to no tenant"
    )
    assert await compute.fetch_value("select pg_has_role('second', 'readers', 'set')")
    await compute.fetch_value("revoke readers from app granted by neondb_owner")


async def test_a_role_that_is_there_is_let_in_or_not_and_keeps_what_it_has(home: EngineHome) -> None:
    compute = await home.create_compute()
    await compute.fetch_value("create role made nologin")
    await change(compute, CreateRole(name="made", verifier=VERIFIER))
    assert await compute.fetch_value("select current_user", "made") == "made"
    await change(compute, CreateRole(name="made", can_login=False))
    with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError):
        await compute.fetch_value("select 1", "made")
    assert await contents(compute) == ({ROLE: VERIFIER, "made": None}, {DATABASE: ROLE})


async def test_what_a_dropped_role_owned_belongs_to_the_owner_of_each_database(home: EngineHome) -> None:
    compute = await home.create_compute()
    await change(
        compute,
        CreateRole(name="writer", verifier=VERIFIER),
        CreateRole(name="other", verifier=VERIFIER),
        CreateDatabase(name="shop", owner="other"),
    )
    for database, owner in ((DATABASE, ROLE), ("shop", "other")):
        async with compute.connect(owner, database) as db:
            await db.execute(
                f"grant create on schema public to writer; grant create on database {database} to writer;"
                "create table given (); grant all on given to writer"
            )
        async with compute.connect("writer", database) as db:
            await db.execute("""
                create table owned (n int); create schema room; create view room.seen as select * from owned;
                create function answer() returns int language sql return 42;
                grant select on owned to public; alter default privileges grant select on tables to public;
                select lo_create(4711)
            """)
    for database in (
        MAINTENANCE_DATABASE,
        "template1",
    ):  # as an earlier version left it, which allowed tenants to connect
        async with compute.connect(ADMIN_ROLE, database) as db:
            await db.execute("select lo_create(4712); alter large object 4712 owner to writer")
    await change(compute, DropRole(name="writer"))
    await change(compute, DropRole(name="writer"))
    assert "writer" not in (await contents(compute))[0]
    for database, owner in ((DATABASE, ROLE), ("shop", "other")):
        async with compute.connect(owner, database) as db:
            owners = await db.fetch("""
                select relname::text, relowner::regrole::text from pg_class where relname in ('owned', 'seen')
                union all select proname, proowner::regrole::text from pg_proc where proname = 'answer'
                union all select nspname, nspowner::regrole::text from pg_namespace where nspname = 'room'
                union all select 'large object', lomowner::regrole::text from pg_largeobject_metadata
            """)
            assert dict(owners) == dict.fromkeys(("owned", "seen", "answer", "room", "large object"), owner)
            assert await db.fetchval("select relacl::text from pg_class where relname = 'given'") == (
                f"{{{owner}=arwdDxtm/{owner}}}"
            )
    for database in (MAINTENANCE_DATABASE, "template1"):
        assert await compute.fetch_value("select count(*) from pg_largeobject_metadata", ADMIN_ROLE, database) == 0


async def test_memberships_that_a_dropped_role_gave_stay(home: EngineHome) -> None:
    compute = await home.create_compute()
    await change(compute, CreateRole(name="giver", verifier=VERIFIER))
    async with compute.connect("giver") as db:
        await db.execute("""
            create role club; create role guest login; create role chief login;
            grant club to guest with inherit false; grant club to chief with admin true
        """)
    await change(compute, DropRole(name="giver"))
    async with compute.connect(ADMIN_ROLE, MAINTENANCE_DATABASE) as db:
        rows = await db.fetch("""
            select member::regrole::text, admin_option, inherit_option, set_option from pg_auth_members
             where roleid = 'club'::regrole order by 1
        """)
    assert [tuple(row) for row in rows] == [("chief", True, True, True), ("guest", False, False, True)]


async def test_the_sessions_of_a_dropped_role_end(home: EngineHome) -> None:
    compute = await home.create_compute()
    await change(compute, CreateRole(name="writer", verifier=VERIFIER))
    await compute.fetch_value("grant create on schema public to writer")
    async with compute.connect("writer") as idle, compute.connect("writer") as busy:
        await idle.execute("begin; create table locked (); lock table locked")
        sleeping = asyncio.ensure_future(busy.execute("select pg_sleep(600)"))
        await change(compute, DropRole(name="writer"))
        for cut_off in (sleeping, idle.execute("select 1")):
            with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
                await cut_off
    with pytest.raises(asyncpg.PostgresError):
        await compute.fetch_value("select 1", "writer")


async def test_a_role_is_kept_when_it_cannot_go(home: EngineHome) -> None:
    compute = await home.create_compute()
    await change(compute, CreateRole(name="writer", verifier=VERIFIER), CreateDatabase(name="shut", owner=ROLE))
    await compute.fetch_value("grant create on schema public to writer", ROLE, "shut")
    await compute.fetch_value("create table owned ()", "writer", "shut")
    await compute.fetch_value("alter database shut allow_connections false")
    async with compute.connect("writer") as db:
        with pytest.raises(EngineError, match="database shut, which cannot be connected to") as refused:
            await change(compute, DropRole(name="writer"))
        assert not refused.value.transient
        assert await db.fetchval("select 1") == 1, "nothing has changed"
    await change(compute, CreateDatabase(name="own", owner="writer"))
    with pytest.raises(EngineError, match="writer owns the database own"):
        await change(compute, DropRole(name="writer"))
    await change(compute, DropDatabase(name="own"), DropDatabase(name="shut"), DropRole(name="writer"))
    assert await contents(compute) == ({ROLE: VERIFIER}, {DATABASE: ROLE})


async def test_a_role_that_postgres_keeps_may_log_in_again(home: EngineHome) -> None:
    """An error that only occurs at the end of the last statement."""
    compute = await home.create_compute()
    await change(compute, CreateRole(name="writer", verifier=VERIFIER))
    async with compute.connect(ADMIN_ROLE, MAINTENANCE_DATABASE) as db:
        await db.execute("set allow_in_place_tablespaces = on")
        await db.execute("create tablespace room owner writer location ''")
        with pytest.raises(EngineError, match="cannot be dropped because some objects depend on it") as refused:
            await change(compute, DropRole(name="writer"))
        assert not refused.value.transient
        assert await compute.fetch_value("select current_user", "writer") == "writer"
        await db.execute("drop tablespace room")
    await change(compute, DropRole(name="writer"))


async def test_who_is_in_a_database_is_cut_off_by_its_new_name(home: EngineHome) -> None:
    compute = await home.create_compute()
    async with compute.connect() as db:
        waiting = asyncio.ensure_future(db.execute("select pg_sleep(600)"))
        await change(compute, AlterDatabase(name=DATABASE, new_name="shop", owner=ROLE))
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
            await waiting
    assert await compute.fetch_value("select current_database()", ROLE, "shop") == "shop"


async def test_a_new_owner_alone_cuts_nobody_off(home: EngineHome) -> None:
    compute = await home.create_compute()
    await change(compute, CreateRole(name="heir", verifier=VERIFIER))
    async with compute.connect() as db:
        await change(compute, AlterDatabase(name=DATABASE, new_name=DATABASE, owner="heir"))
        assert await db.fetchval("select 1") == 1
    assert (await contents(compute))[1] == {DATABASE: "heir"}


async def test_a_name_that_is_taken_is_refused(home: EngineHome) -> None:
    compute = await home.create_compute()
    await change(compute, CreateDatabase(name="shop", owner=ROLE))
    async with compute.connect() as db:
        with pytest.raises(EngineError, match="already has a database shop") as refused:
            await change(compute, AlterDatabase(name=DATABASE, new_name="shop", owner=ROLE))
        assert not refused.value.transient
        assert await db.fetchval("select 1") == 1


@pytest.mark.parametrize("renamed", [False, True])
async def test_a_rename_that_a_crash_cut_off_is_finished(home: EngineHome, renamed: bool) -> None:
    compute = await home.create_compute()
    async with compute.connect(ADMIN_ROLE, MAINTENANCE_DATABASE) as db:
        await db.execute(f"alter database {DATABASE} allow_connections false")
        if renamed:
            await db.execute(f"alter database {DATABASE} rename to shop")
    await change(compute, AlterDatabase(name=DATABASE, new_name="shop", owner=ROLE))
    assert await compute.fetch_value("select current_database()", ROLE, "shop") == "shop"


async def test_a_removal_that_a_crash_cut_off_is_finished(home: EngineHome) -> None:
    compute = await home.create_compute()

    async def cut_off(name: str) -> None:
        await change(compute, CreateDatabase(name=name, owner=ROLE))
        mark = f"update pg_database set datconnlimit = -2 where datname = '{name}'"
        await compute.fetch_value(mark, ADMIN_ROLE, MAINTENANCE_DATABASE)
        assert (await contents(compute))[1] == {DATABASE: ROLE}, "the database no longer exists"

    await cut_off("half")
    await change(compute, CreateDatabase(name="half", owner=ROLE))
    assert await compute.fetch_value("select 1", ROLE, "half") == 1
    await change(compute, DropDatabase(name="half"))
    await cut_off("half")
    await change(compute, AlterDatabase(name=DATABASE, new_name="half", owner=ROLE))
    assert await compute.fetch_value("select 1", ROLE, "half") == 1


async def test_a_database_goes_with_all_who_are_in_it(home: EngineHome) -> None:
    compute = await home.create_compute()
    await compute.start(settings={**compute.spec.settings, "wal_level": "logical"})
    await change(compute, CreateDatabase(name="shop", owner=ROLE))
    async with compute.connect(ROLE, "shop") as db:
        await db.execute("select pg_create_logical_replication_slot('follower', 'pgoutput')")
        await change(compute, DropDatabase(name="shop"))
    assert (await contents(compute))[1] == {DATABASE: ROLE}


async def test_a_rekey_reaches_roles_whose_names_nobody_can_write(home: EngineHome) -> None:
    compute = await home.create_compute()
    await compute.fetch_value(
        "create database latin encoding 'LATIN1' locale_provider libc locale 'C' template template0"
    )
    await compute.fetch_value(f"create role \"été\" login password '{VERIFIER}'", ROLE, "latin")
    await change(compute, ReplacePasswords(verifiers={ROLE: OTHER}))
    left = "select count(*) from pg_authid where rolpassword is not null"
    assert await compute.fetch_value(left, ADMIN_ROLE, MAINTENANCE_DATABASE) == 1


async def test_nothing_that_a_tenant_sets_for_a_database_changes_who_we_are_in_it(home: EngineHome) -> None:
    compute = await home.create_compute()
    await change(compute, CreateRole(name="writer", verifier=VERIFIER))
    await compute.fetch_value("grant create on schema public to writer")
    await compute.fetch_value("create table owned ()", "writer")
    async with compute.connect() as db:
        for setting in (
            f"role = {ROLE}",
            f"session_authorization = {ROLE}",
            "search_path = public",
            "local_preload_libraries = 'nothing'",
            "transaction_timeout = 1",
            "statement_timeout = 1",
            "default_transaction_read_only = on",
        ):
            await db.execute(f"alter database {DATABASE} set {setting}")
    await change(compute, DropRole(name="writer"))
    assert (await contents(compute))[0] == {ROLE: VERIFIER}


async def test_changes_on_an_older_version(home: EngineHome) -> None:
    require_system_15()
    compute = await home.create_compute(15)
    await change(
        compute,
        CreateRole(name="writer", verifier=VERIFIER),
        CreateRole(name="readers", can_login=False),
        CreateDatabase(name="shop", owner="writer"),
        AlterDatabase(name="shop", new_name="store", owner=ROLE),
    )
    pid = compute.pid
    assert await compute.fetch_value("select current_user", "writer") == "writer", "it can connect immediately"
    await compute.start(roles=(*compute.spec.roles, RoleSpec(name="writer", verifier=None)))
    assert await compute.fetch_value("select current_user", "writer") == "writer"
    assert compute.pid == pid
    await compute.fetch_value("set role readers")
    await change(
        compute, ReplacePasswords(verifiers={ROLE: OTHER}), DropRole(name="writer"), DropDatabase(name="store")
    )
    assert await contents(compute) == ({ROLE: OTHER, "readers": None}, {DATABASE: ROLE})


async def test_a_lock_that_is_held_for_long_is_worth_another_try(
    home: EngineHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(compute_connection._SETTINGS, "lock_timeout", "200ms")
    compute = await home.create_compute()
    await change(compute, CreateRole(name="writer", verifier=VERIFIER))
    await compute.fetch_value("grant create on schema public to writer")
    await compute.fetch_value("create table owned ()", "writer")
    async with compute.connect() as db:
        await db.execute("begin; lock table owned")
        with pytest.raises(EngineError, match="lock timeout") as refused:
            await change(compute, DropRole(name="writer"))
        assert refused.value.transient
        assert await compute.fetch_value("select current_user", "writer") == "writer"
    await change(compute, DropRole(name="writer"))
