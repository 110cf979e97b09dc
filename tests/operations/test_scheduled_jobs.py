"""Scheduled jobs of pg_cron: as whom and where they run."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest_asyncio

from bough.ids import EndpointId
from support.platform import API, Platform, open_platform

PRELOADED = {"settings": {"preload_libraries": {"enabled_libraries": ["pg_cron"]}}}
ROWS = "select count(*) from runs"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def platform() -> AsyncIterator[Platform]:
    async with open_platform() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def project(platform: Platform) -> dict[str, Any]:
    """A project in which a job adds a row every second."""
    created = await platform.create_ready_project(settings={"preload_libraries": {"enabled_libraries": ["pg_cron"]}})
    await platform.query(created, "create extension pg_cron")
    await platform.query(created, "create table runs (role name default current_user, worker text)")
    await schedule(platform, created, "adds rows")
    return created


async def schedule(platform: Platform, project: dict[str, Any], name: str) -> None:
    worker = "(select backend_type from pg_stat_activity where pid = pg_backend_pid())"
    statement = f"insert into runs (worker) values ({worker})"
    await platform.query(project, f"select cron.schedule('{name}', '1 second', $job${statement}$job$)")


async def list_warnings(platform: Platform, project: dict[str, Any]) -> list[str]:
    """Schedule a job and return what its owner is told."""
    messages: list[str] = []
    async with platform.connect(project["endpoints"][0]["id"], "neondb_owner", "neondb") as db:
        db.add_log_listener(lambda _, message: messages.append(message.message))
        await db.execute("select cron.schedule('yearly', '0 3 1 1 *', 'select 1')")
        await db.execute("select cron.unschedule('yearly')")
    return messages


async def count_until(platform: Platform, project: dict[str, Any], minimum: int) -> None:
    async def has_enough() -> bool:
        return int(await platform.query(project, ROWS)) >= minimum

    await poll_until(has_enough)


async def poll_until(condition: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(300):
        if await condition():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the condition did not become true in time")


async def create_child(platform: Platform, project: dict[str, Any], kind: str = "read_write") -> dict[str, Any]:
    body = {"endpoints": [{"type": kind}]}
    response = await platform.client.post(f"{API}/projects/{project['project']['id']}/branches", json=body)
    assert response.status_code == 201, response.text
    await platform.run_operations()
    created: dict[str, Any] = response.json()
    return project | created


async def change_settings(platform: Platform, project: dict[str, Any], settings: dict[str, str]) -> None:
    path = f"{API}/projects/{project['project']['id']}/endpoints/{project['endpoints'][0]['id']}"
    response = await platform.client.patch(path, json={"endpoint": {"settings": {"pg_settings": settings}}})
    assert response.status_code == 200, response.text
    await platform.run_operations()


async def test_a_job_runs_in_a_worker_as_its_role(platform: Platform, project: dict[str, Any]) -> None:
    await count_until(platform, project, 2)
    role = project["connection_uris"][0]["connection_parameters"]["role"]
    assert await platform.query(project, "select array_agg(distinct (role, worker)::text) from runs") == [
        f"({role},pg_cron)"
    ]


async def test_jobs_do_not_run_on_a_child_until_its_owner_enables_them(
    platform: Platform, project: dict[str, Any]
) -> None:
    child = await create_child(platform, project)
    before = await platform.query(child, ROWS)
    parent_rows = await platform.query(project, ROWS)
    await count_until(platform, project, parent_rows + 3)
    assert await platform.query(child, "select count(*) from cron.job") == 1
    assert await platform.query(child, ROWS) == before
    assert await list_warnings(platform, child) == ["jobs do not run on this copy of a branch"]
    await change_settings(platform, child, {"cron.launch_active_jobs": "on"})
    await count_until(platform, child, before + 2)
    assert await list_warnings(platform, child) == []


async def test_a_running_job_counts_as_activity(platform: Platform, project: dict[str, Any]) -> None:
    endpoint = EndpointId(project["endpoints"][0]["id"])
    await platform.query(project, "select cron.unschedule('adds rows')")
    await platform.query(project, "select cron.schedule('sleeps', '1 second', 'select pg_sleep(60)')")
    await poll_until(lambda: platform.engine.is_busy(endpoint))
    await platform.query(project, "select cron.unschedule('sleeps')")

    async def is_idle() -> bool:
        await platform.query(project, "select pg_cancel_backend(job_pid) from cron.job_run_details")
        return not await platform.engine.is_busy(endpoint)

    await poll_until(is_idle)


async def test_the_jobs_are_in_the_oldest_database_unless_the_endpoint_says_otherwise(platform: Platform) -> None:
    created = await platform.create_ready_project(**PRELOADED, branch={"database_name": "app"})
    await platform.query(created, "create extension pg_cron")
    await platform.query(created, "create database other")
    await change_settings(platform, created, {"cron.database_name": "other"})
    assert await platform.query(created, "show cron.database_name") == "app"
    path = f"{API}/projects/{created['project']['id']}/endpoints/{created['endpoints'][0]['id']}/restart"
    assert (await platform.client.post(path)).status_code == 200
    await platform.run_operations()
    assert await platform.query(created, "show cron.database_name") == "other"
