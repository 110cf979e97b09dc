"""What is deleted comes back whole within its time, and after it every byte is gone."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bough.domain.operation import OperationKind
from support.branches import create_branch, project_path, query, send_request, shift_clock, suspend_compute
from support.platform import Platform, open_platform

Json = dict[str, Any]
DAY = timedelta(days=1)


@pytest.fixture
async def platform() -> AsyncIterator[Platform]:
    async with open_platform() as made:
        yield made


def on_disk(home: Path) -> set[str]:
    """Whatever there is of projects: data, WAL, history, runs, users."""
    kept = [home / name for name in ("volumes", "wal", "pg_wal", "run", "uids", "spool")]
    return {str(path.relative_to(home)) for folder in kept if folder.exists() for path in folder.rglob("*")}


def branch_path(made: Json) -> str:
    return f"{project_path(made)}/branches/{made['branch']['id']}"


async def wakes(platform: Platform, made: Json) -> None:
    async with platform.background_runner():
        await platform.inner.gateway_api.wakes.wake(made["endpoints"][0]["id"])


async def pass_time(platform: Platform, by: timedelta) -> None:
    """The tasks and their work, some time from now."""
    with shift_clock(by):
        await platform.run_tasks()
    await platform.run_operations()


async def write(platform: Platform, made: Json, table: str) -> None:
    await query(platform, made, f"create table {table} as select generate_series(1, 1000) as n")


async def add_replica(platform: Platform, made: Json) -> str:
    body = {"endpoint": {"branch_id": made["branch"]["id"], "type": "read_only"}}
    answer = await send_request(platform, "POST", f"{project_path(made)}/endpoints", status=201, body=body)
    await platform.run_operations()
    return str(answer["endpoint"]["id"])


async def test_a_deleted_branch_comes_back_with_its_data_and_its_connection_strings(platform: Platform) -> None:
    made = await platform.create_ready_project()
    branch = await create_branch(platform, made, name="dev")
    await write(platform, branch, "kept")
    await query(platform, branch, "create role by_sql login password 'npg_abcdefghijklmnop'")
    replica = await add_replica(platform, branch)
    before = await platform.engine.observe()
    await send_request(platform, "DELETE", branch_path(branch))
    await platform.run_operations()
    after = await platform.engine.observe()
    assert after.running_endpoints < before.running_endpoints
    assert len(before.volumes - after.volumes) == 1, "the replica's copy goes, and is made again"

    answer = await send_request(platform, "POST", f"{branch_path(branch)}/recover")
    assert {each["id"] for each in answer["endpoints"]} == {branch["endpoints"][0]["id"], replica}
    await platform.run_operations()
    await wakes(platform, branch)
    assert await query(platform, branch, "select count(*) from kept") == 1000
    roles = (await send_request(platform, "GET", f"{branch_path(branch)}/roles"))["roles"]
    assert {each["name"] for each in roles} == {"neondb_owner", "by_sql"}
    async with platform.background_runner():
        await platform.inner.gateway_api.wakes.wake(replica)  # type: ignore[arg-type]
    async with platform.connect(replica, "neondb_owner", "neondb") as client:
        assert await client.fetchval("select count(*) from kept") == 1000


async def test_after_its_time_every_byte_of_a_branch_is_gone(platform: Platform) -> None:
    made = await platform.create_ready_project()
    await suspend_compute(platform, made)
    kept = (await platform.engine.observe()).volumes
    branch = await create_branch(platform, made, name="dev")
    await write(platform, branch, "gone")
    await add_replica(platform, branch)
    volumes = (await platform.engine.observe()).volumes - kept
    assert len(volumes) == 2

    def of_the_branch() -> set[str]:
        """Its bases and its WAL have its volume's name in theirs."""
        return {path for path in on_disk(platform.settings.home) if any(volume in path for volume in volumes)}

    await send_request(platform, "DELETE", branch_path(branch))
    await platform.run_operations()
    await pass_time(platform, DAY - timedelta(minutes=1))
    assert any(path.endswith("PG_VERSION") for path in of_the_branch()), "it could come back"
    await pass_time(platform, DAY)
    assert of_the_branch() == set()
    await send_request(platform, "POST", f"{branch_path(branch)}/recover", status=422)
    actions = [each.kind for each in await platform.list_operations(made["project"]["id"])]
    assert actions.count(OperationKind.DELETE_BRANCH) == 1


async def test_what_another_branch_was_or_stands_on_outlives_its_branch(platform: Platform) -> None:
    """A branch that was reset from another begins with that one's data: it can go, and the other goes on."""
    made = await platform.create_ready_project()
    source = await create_branch(platform, made, name="source")
    await write(platform, source, "there")
    target = await create_branch(platform, made, name="target")
    body = {"source_branch_id": source["branch"]["id"]}
    await send_request(platform, "POST", f"{branch_path(target)}/restore", body=body)
    await platform.run_operations()
    await send_request(platform, "DELETE", branch_path(source))
    await platform.run_operations()
    await pass_time(platform, DAY)
    await wakes(platform, target)
    assert await query(platform, target, "select count(*) from there") == 1000
    await send_request(platform, "POST", f"{branch_path(source)}/recover", status=422)


async def everything(platform: Platform) -> Json:
    """A project with all that holds data: a child and its child, a replica, a deleted branch, an archived one, a
    retired volume, a snapshot.
    """
    made = await platform.create_ready_project()
    await write(platform, made, "kept")
    child = await create_branch(platform, made, name="child")
    await create_branch(platform, child, name="grandchild", endpoint=False)
    await add_replica(platform, child)
    deleted = await create_branch(platform, made, name="deleted", endpoint=False)
    await send_request(platform, "DELETE", branch_path(deleted))
    archived = await create_branch(platform, made, name="archived", endpoint=False, archived=True)
    assert (await send_request(platform, "GET", branch_path(archived)))["branch"]["current_state"] == "archived"
    reset = await create_branch(platform, made, name="reset", endpoint=False)
    await send_request(
        platform, "POST", f"{branch_path(reset)}/restore", body={"source_branch_id": made["branch"]["id"]}
    )
    await platform.run_operations()
    await send_request(platform, "POST", f"{branch_path(made)}/snapshot?name=before")
    await platform.run_operations()
    return made


async def test_after_its_time_every_byte_of_a_project_is_gone(platform: Platform) -> None:
    before = on_disk(platform.settings.home)
    made = await everything(platform)
    await send_request(platform, "DELETE", project_path(made))
    await platform.run_operations()
    for _ in range(2):
        await pass_time(platform, 7 * DAY)
    assert on_disk(platform.settings.home) == before
    async with platform.store.read() as rows:
        project_id = made["project"]["id"]
        assert await rows.projects.get(project_id) is None
        assert await rows.branches.list_with_deleted(project_id) == []
        assert await rows.lineages.list_volume_ids(project_id) == []
        assert await rows.lineages.list_in_project(project_id) == []
        assert await rows.snapshots.list_with_deleted(project_id) == []


async def test_a_project_comes_back_with_its_snapshots_and_its_history(platform: Platform) -> None:
    made = await everything(platform)
    branches = await send_request(platform, "GET", f"{project_path(made)}/branches")
    snapshots = await send_request(platform, "GET", f"{project_path(made)}/snapshots")
    await send_request(platform, "DELETE", project_path(made))
    await platform.run_operations()
    await pass_time(platform, 7 * DAY - timedelta(minutes=1))
    await send_request(platform, "POST", f"{project_path(made)}/recover")
    await platform.run_operations()
    assert await query(platform, made, "select count(*) from kept") == 1000
    names = {
        each["name"] for each in (await send_request(platform, "GET", f"{project_path(made)}/branches"))["branches"]
    }
    assert names == {each["name"] for each in branches["branches"]}
    assert await send_request(platform, "GET", f"{project_path(made)}/snapshots") == snapshots
