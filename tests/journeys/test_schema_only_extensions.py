"""Schema-only branches have no rows of a tenant in tables of extensions. No branch has texts of queries."""

from typing import Any

from support.branches import create_branch, project_path, query, send_request, suspend_compute
from support.platform import Platform

LIBRARIES = ["pg_stat_statements", "pg_cron", "pg_hint_plan"]
SETUP = (
    "create extension pg_stat_statements",
    "create extension pg_cron",
    "create extension pg_hint_plan",
    "create extension pg_partman",
    "create table measured (at timestamptz not null) partition by range (at)",
    "select create_parent('public.measured', 'at', '1 day')",
    "select cron.schedule('secret', '0 3 * * *', 'select ''secret''')",
    "insert into cron.job_run_details (jobid, command, return_message) values (1, 'select', 'secret')",
    "grant insert on hint_plan.hints to neondb_owner",
    "insert into hint_plan.hints (query_id, application_name, hints) values (1, 'secret', 'SeqScan(t)')",
    "insert into measured values (now())",
)
EMPTIED = ("cron.job", "cron.job_run_details", "hint_plan.hints", "measured")
KEPT = ("part_config", "pg_extension")
REMEMBERED = "select count(*) from pg_stat_statements where query like '%remembered%'"


async def create_parent(platform: Platform) -> dict[str, Any]:
    return await platform.create_ready_project(settings={"preload_libraries": {"enabled_libraries": LIBRARIES}})


async def test_rows_of_the_tenant_stay_behind_and_rows_about_the_structure_come_along(platform: Platform) -> None:
    created = await create_parent(platform)
    for statement in SETUP:
        role = "bough_admin" if statement.startswith("grant") else "neondb_owner"
        await query(platform, created, statement, role)
    branch = await create_branch(platform, created, init_source="schema-only")
    for table in EMPTIED:
        assert await platform.query(created, f"select count(*) from {table}") > 0, table
        assert await query(platform, branch, f"select count(*) from {table}") == 0, table
    for table in KEPT:
        count = f"select count(*) from {table}"
        assert await query(platform, branch, count) == await platform.query(created, count) > 0, table
    assert await query(platform, branch, "select cron.schedule('first', '0 3 * * *', 'select 1')") == 1
    with_triggers = "select count(*) from pg_trigger where tgenabled <> 'D'"
    assert await query(platform, branch, with_triggers) == await platform.query(created, with_triggers)


async def test_texts_of_queries_stay_behind_in_every_branch(platform: Platform) -> None:
    created = await create_parent(platform)
    await platform.query(created, "create extension pg_stat_statements")
    await platform.query(created, "create table remembered ()")
    await suspend_compute(platform, created)
    for source in ("parent-data", "schema-only"):
        branch = await create_branch(platform, created, init_source=source)
        assert await query(platform, branch, REMEMBERED) == 0
    endpoint = f"{project_path(created)}/endpoints/{created['endpoints'][0]['id']}"
    await send_request(platform, "POST", f"{endpoint}/start")
    await platform.run_operations()
    assert await query(platform, created, REMEMBERED) > 0, "the statistics are not stored, so this test shows nothing"
