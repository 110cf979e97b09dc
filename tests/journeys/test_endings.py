"""Deleted branches and projects can be recovered completely for a time; after it no file of them is left."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bough.domain.operation import OperationKind
from journeys.platform_actions import add_replica, wake
from support.branches import create_branch, project_path, query, send_request, shift_clock, suspend_compute
from support.platform import Platform, open_platform

Json = dict[str, Any]
DAY = timedelta(days=1)


@pytest.fixture
async def platform() -> AsyncIterator[Platform]:
    async with open_platform() as opened:
        yield opened


def list_project_files(home: Path) -> set[str]:
    """Lists the files that belong to projects: data, WAL, history, runtime state and user ids."""
    folders = [home / name for name in ("volumes", "wal", "pg_wal", "run", "uids", "spool")]
    return {str(path.relative_to(home)) for folder in folders if folder.exists() for path in folder.rglob("*")}


def branch_path(created: Json) -> str:
    return f"{project_path(created)}/branches/{created['branch']['id']}"


async def run_tasks_later(platform: Platform, offset: timedelta) -> None:
    """Runs the tasks with a later clock, and then the operations that they created."""
    with shift_clock(offset):
        await platform.run_tasks()
    await platform.run_operations()


async def create_table(platform: Platform, created: Json, table: str) -> None:
    await query(platform, created, f"create table {table} as select generate_series(1, 1000) as n")


async def test_a_deleted_branch_comes_back_with_its_data_and_its_connection_strings(platform: Platform) -> None:
    created = await platform.create_ready_project()
    branch = await create_branch(platform, created, name="dev")
    await create_table(platform, branch, "kept")
    await query(platform, branch, "create role by_sql login password 'npg_abcdefghijklmnop'")
    replica = await add_replica(platform, branch)
    before = await platform.engine.observe()
    await send_request(platform, "DELETE", branch_path(branch))
    await platform.run_operations()
    after = await platform.engine.observe()
    assert after.running_endpoints < before.running_endpoints
    assert len(before.volumes - after.volumes) == 1, "the volume of the replica is removed; a recovery creates it again"

    response = await send_request(platform, "POST", f"{branch_path(branch)}/recover")
    assert {each["id"] for each in response["endpoints"]} == {branch["endpoints"][0]["id"], replica}
    await platform.run_operations()
    await wake(platform, branch["endpoints"][0]["id"])
    assert await query(platform, branch, "select count(*) from kept") == 1000
    roles = (await send_request(platform, "GET", f"{branch_path(branch)}/roles"))["roles"]
    assert {each["name"] for each in roles} == {"neondb_owner", "by_sql"}
    await wake(platform, replica)
    async with platform.connect(replica, "neondb_owner", "neondb") as client:
        assert await client.fetchval("select count(*) from kept") == 1000


async def test_after_its_time_every_byte_of_a_branch_is_gone(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await suspend_compute(platform, created)
    project_volumes = (await platform.engine.observe()).volumes
    branch = await create_branch(platform, created, name="dev")
    await create_table(platform, branch, "gone")
    await add_replica(platform, branch)
    volumes = (await platform.engine.observe()).volumes - project_volumes
    assert len(volumes) == 2

    def list_branch_files() -> set[str]:
        """The names of bases and WAL contain the volume id."""
        return {
            path for path in list_project_files(platform.settings.home) if any(volume in path for volume in volumes)
        }

    await send_request(platform, "DELETE", branch_path(branch))
    await platform.run_operations()
    await run_tasks_later(platform, DAY - timedelta(minutes=1))
    assert any(path.endswith("PG_VERSION") for path in list_branch_files()), "the branch can still be recovered"
    await run_tasks_later(platform, DAY)
    assert list_branch_files() == set()
    await send_request(platform, "POST", f"{branch_path(branch)}/recover", status=422)
    actions = [each.kind for each in await platform.list_operations(created["project"]["id"])]
    assert actions.count(OperationKind.DELETE_BRANCH) == 1


async def test_what_another_branch_was_or_stands_on_outlives_its_branch(platform: Platform) -> None:
    """A branch that was reset from another branch keeps the data after that branch is deleted."""
    created = await platform.create_ready_project()
    source = await create_branch(platform, created, name="source")
    await create_table(platform, source, "there")
    target = await create_branch(platform, created, name="target")
    body = {"source_branch_id": source["branch"]["id"]}
    await send_request(platform, "POST", f"{branch_path(target)}/restore", body=body)
    await platform.run_operations()
    await send_request(platform, "DELETE", branch_path(source))
    await platform.run_operations()
    await run_tasks_later(platform, DAY)
    await wake(platform, target["endpoints"][0]["id"])
    assert await query(platform, target, "select count(*) from there") == 1000
    await send_request(platform, "POST", f"{branch_path(source)}/recover", status=422)


async def create_full_project(platform: Platform) -> Json:
    """Creates a project with everything that holds data: a child and a grandchild, a replica, a deleted branch, an
    archived branch, a retired volume and a snapshot.
    """
    created = await platform.create_ready_project()
    await create_table(platform, created, "kept")
    child = await create_branch(platform, created, name="child")
    await create_branch(platform, child, name="grandchild", endpoint=False)
    await add_replica(platform, child)
    deleted = await create_branch(platform, created, name="deleted", endpoint=False)
    await send_request(platform, "DELETE", branch_path(deleted))
    archived = await create_branch(platform, created, name="archived", endpoint=False, archived=True)
    assert (await send_request(platform, "GET", branch_path(archived)))["branch"]["current_state"] == "archived"
    reset = await create_branch(platform, created, name="reset", endpoint=False)
    await send_request(
        platform, "POST", f"{branch_path(reset)}/restore", body={"source_branch_id": created["branch"]["id"]}
    )
    await platform.run_operations()
    await send_request(platform, "POST", f"{branch_path(created)}/snapshot?name=before")
    await platform.run_operations()
    return created


async def test_after_its_time_every_byte_of_a_project_is_gone(platform: Platform) -> None:
    before = list_project_files(platform.settings.home)
    created = await create_full_project(platform)
    await send_request(platform, "DELETE", project_path(created))
    await platform.run_operations()
    for _ in range(2):
        await run_tasks_later(platform, 7 * DAY)
    assert list_project_files(platform.settings.home) == before
    async with platform.store.read() as rows:
        project_id = created["project"]["id"]
        assert await rows.projects.get(project_id) is None
        assert await rows.branches.list_with_deleted(project_id) == []
        assert await rows.lineages.list_volume_ids(project_id) == []
        assert await rows.lineages.list_in_project(project_id) == []
        assert await rows.snapshots.list_with_deleted(project_id) == []


async def test_a_project_comes_back_with_its_snapshots_and_its_history(platform: Platform) -> None:
    created = await create_full_project(platform)
    branches = await send_request(platform, "GET", f"{project_path(created)}/branches")
    snapshots = await send_request(platform, "GET", f"{project_path(created)}/snapshots")
    await send_request(platform, "DELETE", project_path(created))
    await platform.run_operations()
    await run_tasks_later(platform, 7 * DAY - timedelta(minutes=1))
    await send_request(platform, "POST", f"{project_path(created)}/recover")
    await platform.run_operations()
    assert await query(platform, created, "select count(*) from kept") == 1000
    names = {
        each["name"] for each in (await send_request(platform, "GET", f"{project_path(created)}/branches"))["branches"]
    }
    assert names == {each["name"] for each in branches["branches"]}
    assert await send_request(platform, "GET", f"{project_path(created)}/snapshots") == snapshots
