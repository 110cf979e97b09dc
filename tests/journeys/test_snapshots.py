"""Snapshots on real Postgres: their contents, restores from them, and their deletion."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bough import clock
from bough.engine.local.folders import Folders
from bough.engine.local.images.image import FileSystem
from bough.ids import BranchId, OperationId, ProjectId, SnapshotId
from journeys.platform_actions import add_replica, run_tasks_and_operations
from journeys.served_project import ServedProject, fetch_value
from support import storage
from support.branches import Json, create_branch, kill_compute, project_path, query, send_request, suspend_compute
from support.platform import Platform, open_platform, open_platform_in
from support.program import wait_until
from support.replicas import wait_until_equal

FILE_SYSTEMS: dict[str, FileSystem] = {"reflink": "xfs", "btrfs": "btrfs"}
COUNT = "select count(*) from t"
CREATE_TABLE = "create table t as select generate_series(1, 100) as n"


@pytest.fixture(params=["plain", *(pytest.param(driver, marks=pytest.mark.long) for driver in FILE_SYSTEMS)])
async def platform(request: pytest.FixtureRequest) -> AsyncIterator[Platform]:
    if request.param == "plain":
        async with open_platform(storage="plain") as opened:
            yield opened
        return
    with storage.create_empty_home() as home:
        storage.create_home_image(home, FILE_SYSTEMS[request.param])
        async with open_platform_in(home.parent, storage=request.param) as opened:
            yield opened


async def create_project_with_rows(platform: Platform) -> Json:
    created = await platform.create_ready_project()
    await platform.query(created, CREATE_TABLE)
    return created


async def take_snapshot(platform: Platform, created: Json, **parameters: str) -> Json:
    path = f"{project_path(created)}/branches/{created['branch']['id']}/snapshot"
    response = await platform.client.post(path, params=parameters)
    assert response.status_code == 200, response.text
    await platform.run_operations()
    snapshot_id = response.json()["snapshot"]["id"]
    listed = (await send_request(platform, "GET", f"{project_path(created)}/snapshots"))["snapshots"]
    return next(each for each in listed if each["id"] == snapshot_id)


async def restore(platform: Platform, created: Json, snapshot: Json, **body: Any) -> Json:
    restored = await send_request(
        platform, "POST", f"{project_path(created)}/snapshots/{snapshot['id']}/restore", body=body
    )
    await platform.run_operations()
    return restored


async def finalize(platform: Platform, restored: Json, **body: Any) -> None:
    branch = restored["branch"]["id"]
    await send_request(platform, "POST", f"{project_path(restored)}/branches/{branch}/finalize_restore", body=body)
    await platform.run_operations()
    assert all(each.status != "failed" for each in await platform.list_operations(restored["branch"]["project_id"]))


async def start_endpoint(platform: Platform, created: Json, endpoint_id: str) -> None:
    await send_request(platform, "POST", f"{project_path(created)}/endpoints/{endpoint_id}/start")
    await platform.run_operations()


async def get_branch(platform: Platform, created: Json, branch_id: str) -> Json:
    branch: Json = (await send_request(platform, "GET", f"{project_path(created)}/branches/{branch_id}"))["branch"]
    return branch


def get_volumes_folder(platform: Platform) -> Path:
    return Folders(platform.settings).volumes


def list_volume_files(platform: Platform, volume_id: str) -> list[str]:
    """Lists the data, WAL and history of a volume on the disk."""
    folders = Folders(platform.settings)
    parents = [folder for folder in (folders.volumes, folders.pg_wal, folders.wal_archives) if folder is not None]
    return [str(path) for parent in parents for path in parent.glob(f"{volume_id}*")]


async def get_volume_id(platform: Platform, created: Json, snapshot: Json) -> str:
    async with platform.store.read() as rows:
        found = await rows.snapshots.get(ProjectId(created["project"]["id"]), SnapshotId(snapshot["id"]))
    assert found is not None
    return str(found.volume_id)


@pytest.mark.parametrize("state", ["running", "sleeping", "killed"])
async def test_what_a_branch_holds_is_kept_as_it_is(platform: Platform, state: str) -> None:
    created = await create_project_with_rows(platform)
    if state == "sleeping":
        await suspend_compute(platform, created)
    elif state == "killed":
        await kill_compute(platform, created)
    snapshot = await take_snapshot(platform, created, name="kept")
    assert snapshot["diff_size"] > 0
    assert (snapshot["source_branch_id"], snapshot["manual"]) == (created["branch"]["id"], True)
    await start_endpoint(platform, created, created["endpoints"][0]["id"])
    await platform.query(created, "drop table t")
    restored = await restore(platform, created, snapshot)
    assert await query(platform, restored, COUNT) == 100


async def test_at_a_moment_and_at_a_position(platform: Platform) -> None:
    created = await create_project_with_rows(platform)
    moment = datetime.now(UTC).isoformat()
    lsn = await platform.query(created, "select pg_current_wal_insert_lsn()::text")
    await platform.query(created, "delete from t")
    await platform.query(created, "insert into t values (1)")
    for parameters in ({"timestamp": moment}, {"lsn": lsn}):
        snapshot = await take_snapshot(platform, created, **parameters)
        assert snapshot["lsn"] and snapshot["timestamp"]
        assert await query(platform, await restore(platform, created, snapshot), COUNT) == 100
    assert await platform.query(created, COUNT) == 1


async def test_in_two_steps(platform: Platform) -> None:
    """A restore creates a branch to inspect. Finalizing it swaps the branches, and the old branch is kept."""
    created = await create_project_with_rows(platform)
    snapshot = await take_snapshot(platform, created)
    await platform.query(created, "insert into t values (101)")
    child = await create_branch(platform, created, name="child")
    replica = await add_replica(platform, created)
    restored = await restore(platform, created, snapshot)
    assert (await query(platform, restored, COUNT), await platform.query(created, COUNT)) == (100, 101)
    branch = await get_branch(platform, created, restored["branch"]["id"])
    assert (branch["restore_status"], branch["restored_from"]) == ("restored", snapshot["id"])

    await finalize(platform, restored)
    assert await platform.query(created, COUNT) == 100, "the same endpoint serves the restored data"
    await start_endpoint(platform, created, restored["endpoints"][0]["id"])
    assert await query(platform, restored, COUNT) == 101, "the endpoint of the restored branch serves the old data"
    await wait_until_equal(lambda: query(platform, {"endpoints": [{"id": replica}]}, COUNT), 100)
    await platform.query(created, "insert into t values (0)")
    await wait_until_equal(lambda: query(platform, {"endpoints": [{"id": replica}]}, COUNT), 101)
    new_branch = await get_branch(platform, created, restored["branch"]["id"])
    old_branch = await get_branch(platform, created, created["branch"]["id"])
    assert (new_branch["name"], new_branch["default"], new_branch["restore_status"]) == ("main", True, "finalized")
    assert (old_branch["name"], old_branch["default"]) == ("main (old)", False)
    assert new_branch["restored_as"] == old_branch["id"]
    assert (await get_branch(platform, created, child["branch"]["id"]))["parent_id"] == old_branch["id"]
    endpoints = (await send_request(platform, "GET", f"{project_path(created)}/branches/{new_branch['id']}/endpoints"))[
        "endpoints"
    ]
    assert {each["id"] for each in endpoints} == {created["endpoints"][0]["id"], replica}
    assert {each["current_state"] for each in endpoints} == {"active"}


async def test_in_one_step_again_and_again(platform: Platform) -> None:
    created = await create_project_with_rows(platform)
    snapshot = await take_snapshot(platform, created)
    for number in range(2):
        await platform.query(created, "drop table t")
        await restore(platform, created, snapshot, finalize_restore=True)
        assert await platform.query(created, COUNT) == 100, number
    listed = (await send_request(platform, "GET", f"{project_path(created)}/branches"))["branches"]
    assert sorted(each["name"] for each in listed) == ["main", "main (old 2)", "main (old)"]
    default = next(each for each in listed if each["default"])
    assert default["name"] == "main"
    for each in listed:
        if each is not default:
            await send_request(platform, "DELETE", f"{project_path(created)}/branches/{each['id']}")
    await platform.run_operations()
    assert await platform.query(created, COUNT) == 100


async def test_of_a_compute_that_sleeps(platform: Platform) -> None:
    created = await create_project_with_rows(platform)
    snapshot = await take_snapshot(platform, created)
    await platform.query(created, "drop table t")
    await suspend_compute(platform, created)
    restored = await restore(platform, created, snapshot, finalize_restore=True)
    endpoint = await platform.get_endpoint(created)
    assert (endpoint.branch_id, endpoint.state, endpoint.pending_state) == (restored["branch"]["id"], "idle", None)
    await start_endpoint(platform, created, endpoint.id)
    assert await platform.query(created, COUNT) == 100


async def test_roles_are_those_of_the_snapshot_with_the_passwords_of_now(platform: Platform) -> None:
    created = await create_project_with_rows(platform)
    await platform.query(created, "create role then_only login")
    roles_path = f"{project_path(created)}/branches/{created['branch']['id']}/roles"
    snapshot = await take_snapshot(platform, created)
    await platform.query(created, "drop role then_only")
    await send_request(platform, "POST", roles_path, status=201, body={"role": {"name": "now_only"}})
    await platform.run_operations()
    restored = await restore(platform, created, snapshot, name="look")
    restored_roles_path = f"{project_path(created)}/branches/{restored['branch']['id']}/roles"
    assert {each["name"] for each in (await send_request(platform, "GET", restored_roles_path))["roles"]} == {
        "neondb_owner",
        "then_only",
    }
    new_password = (await send_request(platform, "POST", f"{roles_path}/neondb_owner/reset_password"))["role"][
        "password"
    ]
    await platform.run_operations()
    await finalize(platform, restored, name="before")
    async with platform.store.read() as rows:
        (role,) = [
            each for each in await rows.roles.list_in_branch(BranchId(restored["branch"]["id"])) if each.verifier
        ]
    assert (role.name, role.is_pending) == ("neondb_owner", False), "Postgres has the new password"
    assert (await send_request(platform, "GET", f"{restored_roles_path}/neondb_owner/reveal_password"))[
        "password"
    ] == new_password
    assert (await get_branch(platform, created, created["branch"]["id"]))["name"] == "before"


async def test_a_snapshot_outlives_its_branch_and_what_is_restored_outlives_the_snapshot(platform: Platform) -> None:
    created = await create_project_with_rows(platform)
    first = await take_snapshot(platform, created, name="first")
    root_branch = await restore(platform, created, first, name="root")
    await query(platform, root_branch, "delete from t where n > 50")
    second = await take_snapshot(platform, root_branch, name="second")
    await send_request(platform, "DELETE", f"{project_path(created)}/branches/{root_branch['branch']['id']}")
    await platform.run_operations()
    async with platform.store.transaction() as rows:
        deleted_branch = await rows.branches.get(
            ProjectId(created["project"]["id"]), BranchId(root_branch["branch"]["id"])
        )
        assert deleted_branch is not None
        await rows.branches.save(replace(deleted_branch, recoverable_until=clock.now()))
    await run_tasks_and_operations(platform)
    assert list_volume_files(platform, deleted_branch.volume_id) == []
    restored = await restore(platform, created, second, name="again")
    assert await query(platform, restored, COUNT) == 50
    volume_id = await get_volume_id(platform, created, second)
    assert list_volume_files(platform, volume_id)
    await send_request(platform, "DELETE", f"{project_path(created)}/snapshots/{second['id']}", status=202)
    await platform.run_operations()
    assert list_volume_files(platform, volume_id) == []
    moment = datetime.now(UTC).isoformat()
    await query(platform, restored, "insert into t values (0)")
    earlier_branch = await create_branch(platform, restored, parent_timestamp=moment)
    assert (await query(platform, earlier_branch, COUNT), await query(platform, restored, COUNT)) == (50, 51)


async def test_a_snapshot_that_cannot_be_made_leaves_nothing(platform: Platform) -> None:
    created = await create_project_with_rows(platform)
    before = sorted(path.name for path in get_volumes_folder(platform).iterdir())
    async with platform.store.read() as rows:
        branch = await rows.branches.get(ProjectId(created["project"]["id"]), BranchId(created["branch"]["id"]))
    assert branch is not None
    await suspend_compute(platform, created)
    record = get_volumes_folder(platform) / branch.volume_id / "volume.json"
    original_record = record.read_text()
    record.write_text(original_record.replace('"install": "', '"install": "other-'))
    await platform.client.post(f"{project_path(created)}/branches/{branch.id}/snapshot", params={"name": "one"})
    await platform.run_operations()
    record.write_text(original_record)
    assert (await send_request(platform, "GET", f"{project_path(created)}/snapshots"))["snapshots"] == []
    assert sorted(path.name for path in get_volumes_folder(platform).iterdir()) == before
    assert (await take_snapshot(platform, created, name="one"))["name"] == "one"


async def test_a_restore_that_cannot_be_made_changes_nothing(platform: Platform) -> None:
    created = await create_project_with_rows(platform)
    snapshot = await take_snapshot(platform, created)
    volume_id = await get_volume_id(platform, created, snapshot)
    record = get_volumes_folder(platform) / volume_id / "volume.json"
    record.write_text(record.read_text().replace('"install": "', '"install": "other-'))
    parameters = created["connection_uris"][0]["connection_parameters"]
    async with platform.connect(created["endpoints"][0]["id"], parameters["role"], parameters["database"]) as client:
        restored = await restore(platform, created, snapshot, finalize_restore=True)
        assert await client.fetchval(COUNT) == 100, "no session was closed"
    operations = {each.id: each.status for each in await platform.list_operations(created["project"]["id"])}
    assert [operations[OperationId(each["id"])] for each in restored["operations"]] == [
        "failed",
        "cancelled",
        "cancelled",
    ]
    listed = (await send_request(platform, "GET", f"{project_path(created)}/branches"))["branches"]
    assert [each["name"] for each in listed] == ["main"]
    endpoint = await platform.get_endpoint(created)
    assert (endpoint.branch_id, endpoint.state, endpoint.pending_state) == (created["branch"]["id"], "active", None)


async def test_a_connection_string_goes_on_working(served_project: ServedProject) -> None:
    """Sessions that are open during the restore are closed with an error."""
    path = served_project.project_path
    async with await served_project.connect_to(served_project.uri) as session:
        await session.execute(CREATE_TABLE)
    branch_path = f"{path}/branches/{served_project.creation_response['branch']['id']}"
    taken = served_project.api.post(f"{branch_path}/snapshot").raise_for_status().json()
    wait_until(lambda: "diff_size" in served_project.api.get(f"{path}/snapshots").json()["snapshots"][0])
    session = await served_project.connect()
    await session.execute("drop table t")
    snapshot_path = f"{path}/snapshots/{taken['snapshot']['id']}"
    restored = (
        served_project.api.post(f"{snapshot_path}/restore", json={"finalize_restore": True}).raise_for_status().json()
    )
    last_operation = f"{path}/operations/{restored['operations'][-1]['id']}"
    wait_until(lambda: served_project.api.get(last_operation).json()["operation"]["status"] == "finished")
    with pytest.raises(psycopg.Error):
        await fetch_value(session, "select 1")
    assert await served_project.fetch_value(COUNT) == 100
