"""Branches with the schema of the parent and without its rows."""

from typing import Any

from support.branches import create_branch, query, suspend_compute
from support.platform import Platform

STRUCTURE = [
    "create schema app",
    "create table app.people (id int generated always as identity primary key, name text, boss int)",
    "alter table app.people add foreign key (boss) references app.people",
    "create table app.visits (at date, person int references app.people) partition by range (at)",
    "create table app.visits_2026 partition of app.visits for values from ('2026-01-01') to ('2027-01-01')",
    'create table "odd ""name" (a int)',
    "create unlogged table passing (a text)",
    "create sequence numbers start 7",
    "create materialized view names as select name from app.people",
    "create view all_names as select name from app.people",
    "create index on app.people (lower(name))",
    "create statistics app.both on name, boss from app.people",
    "create extension hstore",
    "create function boom() returns trigger language plpgsql as $$ begin raise exception 'ran'; end $$",
    "create trigger always before truncate on app.people execute function boom()",
    "create trigger replays before truncate on app.visits execute function boom()",
    "create trigger usual before truncate on passing execute function boom()",
    "alter table app.people enable always trigger always",
    "alter table app.visits enable replica trigger replays",
    "create role reader login password 'x'",
    "grant select on app.people to reader",
    "alter default privileges in schema app grant select on tables to reader",
    "comment on table app.people is 'those who are here'",
]
ROWS = [
    "insert into app.people (name, boss) select 'secret ' || n, null from generate_series(1, 500) n",
    "insert into app.visits select '2026-02-03', id from app.people",
    """insert into "odd ""name" values (1)""",
    "insert into passing values ('secret')",
    "select nextval('numbers'), nextval('numbers')",
    "refresh materialized view names",
    "select lo_from_bytea(0, 'secret')",
    "analyze",
]
TRIGGER_STATES = (
    "select string_agg(tgname || tgenabled::text, ' ' order by tgname) from pg_trigger where not tgisinternal"
)
RELATIONS = """
    select string_agg(format('%s %s %s', c.oid::regclass, c.relkind, c.relacl), E'\\n' order by c.oid::regclass::text)
      from pg_class c join pg_namespace n on n.oid = relnamespace where nspname in ('app', 'public')
"""


async def test_the_structure_comes_along_and_no_row_does(platform: Platform) -> None:
    created = await platform.create_ready_project()
    for statement in (*STRUCTURE, *ROWS):
        await platform.query(created, statement)
    branch = await create_branch(platform, created, init_source="schema-only")
    assert branch["branch"]["init_source"] == "schema-only"

    async def query_both(sql: str) -> tuple[Any, Any]:
        return await platform.query(created, sql), await query(platform, branch, sql)

    for sql in (
        RELATIONS,
        TRIGGER_STATES,
        "select obj_description('app.people'::regclass)",
        "select count(*) from pg_extension",
    ):
        before, after = await query_both(sql)
        assert before == after, sql
    for table in ("app.people", "app.visits", '"odd ""name"', "passing", "all_names", "pg_largeobject_metadata"):
        before, after = await query_both(f"select count(*) from {table}")
        assert before > 0, table
        assert after == 0, table
    assert await query(platform, branch, "select count(*) from pg_stats where schemaname = 'app'") == 0
    assert not await query(platform, branch, "select relispopulated from pg_class where relname = 'names'")
    assert await query(platform, branch, "select nextval('numbers')") == 7
    assert await query(platform, branch, "insert into app.people (name) values ('first') returning id") == 1
    assert (await query_both("select count(*) from app.people"))[0] == 500, "the parent is unchanged"


async def test_transactions_that_were_prepared_are_rolled_back(platform: Platform) -> None:
    settings = {"pg_settings": {"max_prepared_transactions": "5"}}
    created = await platform.create_ready_project(default_endpoint_settings=settings)
    await platform.query(created, "create table t (n int)")
    async with platform.connect(created["endpoints"][0]["id"], "neondb_owner", "neondb") as client:
        await client.execute("begin; insert into t values (1); lock table t; prepare transaction 'it''s open'")
    branch = await create_branch(platform, created, init_source="schema-only")
    assert await query(platform, branch, "select count(*) from pg_prepared_xacts") == 0
    await query(platform, branch, "insert into t values (2)")
    assert await platform.query(created, "select count(*) from pg_prepared_xacts") == 1


async def test_of_a_parent_that_sleeps_and_of_every_database(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await platform.query(created, "create database other")
    async with platform.connect(created["endpoints"][0]["id"], "neondb_owner", "other") as client:
        await client.execute("create table t as select generate_series(1, 10) as n")
    await suspend_compute(platform, created)
    branch = await create_branch(platform, created, init_source="schema-only")
    async with platform.connect(branch["endpoints"][0]["id"], "neondb_owner", "other") as client:
        assert await client.fetchval("select count(*) from t") == 0
    assert [each["name"] for each in branch["databases"]] == ["neondb", "other"]
