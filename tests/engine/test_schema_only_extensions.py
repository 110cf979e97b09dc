"""Which tables of extensions lose their rows on schema-only branches."""

from bough.config import default_cache
from bough.domain.catalog_change import DeleteAllRows
from bough.engine.local.installs import download
from bough.engine.port import Readiness
from bough.postgres.extensions import catalog
from engine.extension_examples import EXAMPLES, PRELOADED
from engine.test_extensions import build_settings, create_extensions
from support.engine_home import EngineHome, make_branch_spec, temporary_home
from support.install_cache import copy_cache

CONTROL = "default_version = '1.0'\nsuperuser = false\n"
SCRIPT = """
create table "Orders" (id serial, name text);
create table units (name text, factor float);
create table known (id int, is_own boolean);
insert into units values ('km', 1000);
insert into known values (1, false);
select pg_catalog.pg_extension_config_dump('"Orders"', '');
select pg_catalog.pg_extension_config_dump('known', 'where is_own');
"""
TRIGGER = """
create function stop() returns trigger language plpgsql as 'begin raise exception ''it ran''; end';
create trigger stop before truncate on "Orders" execute function stop();
alter table "Orders" enable always trigger stop
"""


async def test_tables_of_own_extensions_that_pg_dump_dumps_lose_their_rows() -> None:
    install = download.fetch_install(17, default_cache())
    with copy_cache(install) as cache, temporary_home(cache=cache, storage="plain") as settings:
        folder = cache / "postgres" / install.root.name / "usr/share/postgresql/17/extension"
        (folder / "mine.control").write_text(CONTROL)
        (folder / "mine--1.0.sql").write_text(SCRIPT)
        async with EngineHome.open(settings) as home:
            parent = await home.create_compute()
            async with parent.connect() as db:
                await db.execute(f"create extension mine; {TRIGGER}")
                await db.execute(
                    """insert into "Orders" (name) values ('secret'); insert into known values (2, true)"""
                )
            child = await home.create_child(parent)
            await home.engine.apply_change(make_branch_spec(child.spec), DeleteAllRows())
            assert await child.start() is Readiness.READY
            async with child.connect() as db:
                assert await db.fetchval('select count(*) from "Orders"') == 0
                assert await db.fetchval("""insert into "Orders" (name) values ('new') returning id""") == 1
                assert await db.fetchval("select count(*) from units") == 1
                assert await db.fetchval("select count(*) from known") == 2
            assert await parent.fetch_value('select count(*) from "Orders"') == 1


# Their rows describe tables of the tenant.
KEPT = {("pg_partman", "part_config"), ("pg_partman", "part_config_sub")}
SELECT_TABLES = """
    select extname::text, relname::text from pg_depend
      join pg_class on pg_class.oid = objid join pg_extension on pg_extension.oid = refobjid
     where classid = 'pg_class'::regclass and refclassid = 'pg_extension'::regclass and relkind in ('r', 'p')
"""


async def test_each_table_of_an_extension_of_the_default_build_is_kept_or_emptied(home: EngineHome) -> None:
    compute = await home.create_branch()
    assert await compute.start(settings=build_settings(compute, PRELOADED)) is Readiness.READY
    await create_extensions(compute, EXAMPLES)
    async with compute.connect() as db:
        found = {tuple(row) for row in await db.fetch(SELECT_TABLES)}
    default = [each for each in catalog.EXTENSIONS if each.is_in_default_build]
    assert found == KEPT | {(each.name, table) for each in default for table in each.tenant_tables}
