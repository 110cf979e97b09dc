"""Rule 21: a tenant loads no library into its server, on any build that is offered, and its connections write no file.

The library of the attacker is where the server could load it; a superuser loads it to show that it works.
"""

from collections.abc import AsyncIterator
from contextlib import suppress

import asyncpg
import pytest
import pytest_asyncio

from bough.engine.port import Readiness
from bough.engine.spec import build_compute_settings
from security.build_flavours import BUILDS, home_with_build
from security.fake_tls_server import open_tls_server
from security.library_target import Target
from security.planted_slot import plant_slot
from support.engine_home import ROLE, EngineHome

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

LOGICAL = build_compute_settings(0.25, logical_replication=True)
DENIED = asyncpg.InsufficientPrivilegeError
LIBRARY_PARAMETERS = (
    "archive_library",
    "dynamic_library_path",
    "extension_control_path",
    "extension_destdir",
    "jit_provider",
    "krb_server_keyfile",
    "oauth_validator_libraries",
    "output_plugin_libraries",
    "session_preload_libraries",
    "shared_preload_libraries",
    "ssl_library",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=BUILDS, ids=lambda build: f"{build[0]}-{build[1]}")
async def target(request: pytest.FixtureRequest) -> AsyncIterator[Target]:
    flavour, major = request.param
    with home_with_build(flavour, major) as settings:
        async with EngineHome.open(settings) as home:
            yield Target(await home.create_compute(major, settings=LOGICAL))


async def test_a_superuser_loads_the_library(target: Target) -> None:
    async with target.compute.connect("bough_admin") as db:
        with pytest.raises(asyncpg.PostgresError, match="missing magic block"):
            await db.execute(f"load '{target.library}'")
    assert target.take_marker()


async def test_statements_load_none(target: Target) -> None:
    library = target.library
    statements = {
        f"load '{library}'": "is not allowed",
        "load '$libdir/test_decoding'": "is not allowed",
        f"create function f() returns int language c as '{library}', 'f'": "permission denied for language c",
        "create function f() returns int language internal as 'pg_backend_pid'": "for language internal",
        "create language c handler plpgsql_call_handler": "must be superuser",
        "create extension plpython3u": "not available|not offered|permission denied",
        "create extension plperlu": "not available|not offered|permission denied",
        "create extension file_fdw": "not available|not offered|permission denied",
        "create access method a type index handler bthandler": "permission denied",
        f"copy pg_class to program 'touch {target.marker}'": "permission denied|must be superuser",
        f"copy pg_class to '{library}'": "permission denied|must be superuser",
        f"select lo_import('{library}')": "permission denied",
        f"select pg_read_binary_file('{library}')": "permission denied",
        f"create collation evil (provider = icu, locale = '{library}')": "",
        f"create text search dictionary d (template = ispell, dictfile = '{library}', afffile = 'a')": "invalid",
        f'select xmlparse(document \'<?xml version="1.0" encoding="{library}"?><a/>\')': "",
        f"select xmlparse(document '<!DOCTYPE a [<!ENTITY b SYSTEM \"{library}\">]><a>&b;</a>')": "",
    }
    async with target.compute.connect() as db:
        for statement, message in statements.items():
            with (
                suppress(asyncpg.PostgresError) if not message else pytest.raises(asyncpg.PostgresError, match=message)
            ):
                await db.execute(statement)
            assert not target.take_marker(), statement


async def test_parameters_load_none(target: Target) -> None:
    async with target.compute.connect() as db:
        known = {name for (name,) in await db.fetch("select name from pg_settings")}
        names = [name for name in LIBRARY_PARAMETERS if name in known]
        assert "session_preload_libraries" in names
        for name in names:
            for statement in (
                f"set {name} = '{target.library}'",
                f"alter role current_user set {name} = '{target.library}'",
                f"alter database neondb set {name} = '{target.library}'",
                f"alter system set {name} = '{target.library}'",
                f"select set_config('{name}', '{target.library}', false)",
            ):
                with pytest.raises((DENIED, asyncpg.CantChangeRuntimeParamError)):
                    await db.execute(statement)
        await db.execute(f"alter role current_user set local_preload_libraries = '{target.library}'")
    try:
        with pytest.raises(asyncpg.PostgresError, match="is not allowed"):
            async with target.compute.connect():
                pass
    finally:
        reset = f"alter role {ROLE} reset local_preload_libraries"
        await target.compute.fetch_value(reset, "bough_admin")
    assert not target.take_marker()


async def test_no_connection_of_the_server_loads_an_engine(target: Target) -> None:
    async with open_tls_server(target.certificate) as port, target.compute.connect() as db:
        await db.execute("create extension if not exists dblink; create extension if not exists postgres_fdw")
        for key in (
            f"{target.library}:key",
            f"{target.library}:",
            "dynamic:key",
            f"../../../../..{target.library}:key",
        ):
            options = f"sslmode=require gssencmode=disable sslcert={target.certificate} sslkey={key}"
            uri = f"host=127.0.0.1 port={port} user=a password=b dbname=c {options}"
            for statement in (
                f"select dblink_connect('far', '{uri}')",
                f"create subscription far connection '{uri}' publication news",
            ):
                with pytest.raises(asyncpg.PostgresError) as error:
                    await db.execute(statement)
                text = f"{error.value} {error.value.detail}"
                # Before version 16, only superusers create subscriptions.
                assert "could not load SSL engine" in text or "must be superuser to create subscriptions" in text
                assert not target.take_marker(), statement
        await db.execute(
            f"create server far foreign data wrapper postgres_fdw options (host '127.0.0.1', port '{port}')"
        )
        mapping = (
            f"create user mapping for current_user server far options (sslcert '{target.certificate}', sslkey '{key}')"
        )
        with pytest.raises(DENIED, match="superuser-only"):
            await db.execute(mapping)


async def test_no_connection_of_the_server_writes_a_file(target: Target) -> None:
    """Version 18 logs the keys of a connection to a file, if the options say so. Earlier ones reject the option."""
    file = target.compute.data_folder / "keys"
    async with open_tls_server(target.certificate) as port, target.compute.connect() as db:
        await db.execute("create extension if not exists dblink")
        uri = f"host=127.0.0.1 port={port} user=a password=b sslmode=require gssencmode=disable sslkeylogfile={file}"
        with pytest.raises(asyncpg.PostgresError):
            await db.execute(f"select dblink_connect('far', '{uri}')")
    assert not file.exists()


async def test_output_plugins_load_none(target: Target) -> None:
    library = target.library
    relative = f"../../../{library.relative_to('/')}"
    async with target.compute.connect() as db:
        for plugin in (str(library), str(library.with_suffix("")), relative, f"$libdir/{relative}", "$libdir/pgoutput"):
            for statement in (
                "select pg_create_logical_replication_slot('taken', $1)",
                "select pg_copy_logical_replication_slot('own', 'taken', true, $1)",
            ):
                with pytest.raises(DENIED, match="is not allowed"):
                    await db.fetchval(statement, plugin)
        await db.execute("create table letters (a int)")
        for plugin in target.list_plugins():
            await db.fetchval("select pg_create_logical_replication_slot('own', $1)", plugin)
            await db.execute("insert into letters values (1)")
            changes = await db.fetch("select data from pg_logical_slot_get_changes('own', null, null)")
            assert any("letters" in data for (data,) in changes)
            await db.execute("select pg_drop_replication_slot('own')")
    assert not target.take_marker()


async def test_files_of_the_volume_name_none(target: Target) -> None:
    """The code of a tenant can write them: settings, and a slot with another output plugin."""
    compute = target.compute
    await compute.fetch_value("select pg_create_logical_replication_slot('mine', 'test_decoding')")
    await compute.suspend()
    settings = compute.data_folder / "postgresql.auto.conf"
    known = ("archive_library", "dynamic_library_path", "jit_provider", "local_preload_libraries")
    lines = [
        f"{name} = '{target.library}'" for name in (*known, "session_preload_libraries", "shared_preload_libraries")
    ]
    text = settings.read_text()
    settings.write_text("\n".join([text, *lines, ""]))
    plant_slot(compute.data_folder / "pg_replslot" / "mine", str(target.library.with_suffix("")))
    try:
        assert await compute.start() is Readiness.READY
        assert await compute.fetch_value("show dynamic_library_path") == "$libdir"
        assert await compute.fetch_value("select count(*) from pg_replication_slots") == 0
        with pytest.raises(asyncpg.UndefinedObjectError):
            await compute.fetch_value("select pg_logical_slot_get_changes('mine', null, null)")
    finally:
        settings.write_text(text)
    assert not target.take_marker()
