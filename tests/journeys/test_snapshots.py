"""Snapshots on real Postgres: what they hold, what is restored from them, and what is left when they go."""

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
from journeys.served_project import ServedProject, fetch_value
from support import storage
from support.branches import Json, create_branch, kill_compute, project_path, query, send_request, suspend_compute
from support.platform import Platform, open_platform, open_platform_in
from support.program import wait_until
from support.replicas import wait_until_equal

FILE_SYSTEMS: dict[str, FileSystem] = {"reflink": "xfs", "btrfs": "btrfs"}
COUNT = "select count(*) from t"
MAKE = "create table t as select generate_series(1, 100) as n"


@pytest.fixture(params=["plain", *(pytest.param(driver, marks=pytest.mark.long) for driver in FILE_SYSTEMS)])
async def platform(request: pytest.FixtureRequest) -> AsyncIterator[Platform]:
    if request.param == "plain":
        async with open_platform(storage="plain") as made:
            yield made
        return
    with storage.create_empty_home() as home:
        storage.create_home_image(home, FILE_SYSTEMS[request.param])
        async with open_platform_in(home.parent, storage=request.param) as made:
            yield made


async def with_rows(platform: Platform) -> Json:
    made = await platform.create_ready_project()
    await platform.query(made, MAKE)
    return made


async def take(platform: Platform, made: Json, **given: str) -> Json:
    path = f"{project_path(made)}/branches/{made['branch']['id']}/snapshot"
    answer = await platform.client.post(path, params=given)
    assert answer.status_code == 200, answer.text
    await platform.run_operations()
    snapshot_id = answer.json()["snapshot"]["id"]
    listed = (await send_request(platform, "GET", f"{project_path(made)}/snapshots"))["snapshots"]
    return next(each for each in listed if each["id"] == snapshot_id)


async def restore(platform: Platform, made: Json, snapshot: Json, **body: Any) -> Json:
    restored = await send_request(
        platform, "POST", f"{project_path(made)}/snapshots/{snapshot['id']}/restore", body=body
    )
    await platform.run_operations()
    return restored


async def finalize(platform: Platform, restored: Json, **body: Any) -> None:
    branch = restored["branch"]["id"]
    await send_request(platform, "POST", f"{project_path(restored)}/branches/{branch}/finalize_restore", body=body)
    await platform.run_operations()
    assert all(each.status != "failed" for each in await platform.list_operations(restored["branch"]["project_id"]))


async def start(platform: Platform, made: Json, endpoint_id: str) -> None:
    await send_request(platform, "POST", f"{project_path(made)}/endpoints/{endpoint_id}/start")
    await platform.run_operations()


async def branch_of(platform: Platform, made: Json, branch_id: str) -> Json:
    shown: Json = (await send_request(platform, "GET", f"{project_path(made)}/branches/{branch_id}"))["branch"]
    return shown


def volumes(platform: Platform) -> Path:
    """Where they are, in an image or not."""
    return Folders(platform.settings).volumes


def remains(platform: Platform, volume_id: str) -> list[str]:
    """What there is of a volume on the disk: its data, its WAL, its history."""
    places = Folders(platform.settings)
    rooms = [place for place in (places.volumes, places.pg_wal, places.wal_archives) if place is not None]
    return [str(path) for room in rooms for path in room.glob(f"{volume_id}*")]


async def volume_of(platform: Platform, made: Json, snapshot: Json) -> str:
    async with platform.store.read() as rows:
        found = await rows.snapshots.get(ProjectId(made["project"]["id"]), SnapshotId(snapshot["id"]))
    assert found is not None
    return str(found.volume_id)


@pytest.mark.parametrize("state", ["running", "sleeping", "killed"])
async def test_what_a_branch_holds_is_kept_as_it_is(platform: Platform, state: str) -> None:
    made = await with_rows(platform)
    if state == "sleeping":
        await suspend_compute(platform, made)
    elif state == "killed":
        await kill_compute(platform, made)
    snapshot = await take(platform, made, name="kept")
    assert snapshot["diff_size"] > 0
    assert (snapshot["source_branch_id"], snapshot["manual"]) == (made["branch"]["id"], True)
    await start(platform, made, made["endpoints"][0]["id"])
    await platform.query(made, "drop table t")
    restored = await restore(platform, made, snapshot)
    assert await query(platform, restored, COUNT) == 100


async def test_at_a_moment_and_at_a_position(platform: Platform) -> None:
    made = await with_rows(platform)
    at = datetime.now(UTC).isoformat()
    position = await platform.query(made, "select pg_current_wal_insert_lsn()::text")
    await platform.query(made, "delete from t")
    await platform.query(made, "insert into t values (1)")
    for given in ({"timestamp": at}, {"lsn": position}):
        snapshot = await take(platform, made, **given)
        assert snapshot["lsn"] and snapshot["timestamp"]
        assert await query(platform, await restore(platform, made, snapshot), COUNT) == 100
    assert await platform.query(made, COUNT) == 1


async def test_in_two_steps(platform: Platform) -> None:
    """Look first; then the restored branch takes the place, and what was there stays beside it."""
    made = await with_rows(platform)
    snapshot = await take(platform, made)
    await platform.query(made, "insert into t values (101)")
    child = await create_branch(platform, made, name="child")
    asked = {"endpoint": {"branch_id": made["branch"]["id"], "type": "read_only"}}
    replica = (await send_request(platform, "POST", f"{project_path(made)}/endpoints", status=201, body=asked))[
        "endpoint"
    ]
    await platform.run_operations()
    restored = await restore(platform, made, snapshot)
    assert (await query(platform, restored, COUNT), await platform.query(made, COUNT)) == (100, 101)
    shown = await branch_of(platform, made, restored["branch"]["id"])
    assert (shown["restore_status"], shown["restored_from"]) == ("restored", snapshot["id"])

    await finalize(platform, restored)
    assert await platform.query(made, COUNT) == 100, "the endpoint is the same, and its data what was restored"
    await start(platform, made, restored["endpoints"][0]["id"])
    assert await query(platform, restored, COUNT) == 101, "the other's is for looking at what was there"
    await wait_until_equal(lambda: query(platform, {"endpoints": [replica]}, COUNT), 100)
    await platform.query(made, "insert into t values (0)")
    await wait_until_equal(lambda: query(platform, {"endpoints": [replica]}, COUNT), 101)
    new = await branch_of(platform, made, restored["branch"]["id"])
    old = await branch_of(platform, made, made["branch"]["id"])
    assert (new["name"], new["default"], new["restore_status"]) == ("main", True, "finalized")
    assert (old["name"], old["default"]) == ("main (old)", False)
    assert new["restored_as"] == old["id"]
    assert (await branch_of(platform, made, child["branch"]["id"]))["parent_id"] == old["id"]
    endpoints = (await send_request(platform, "GET", f"{project_path(made)}/branches/{new['id']}/endpoints"))[
        "endpoints"
    ]
    assert {each["id"] for each in endpoints} == {made["endpoints"][0]["id"], replica["id"]}
    assert {each["current_state"] for each in endpoints} == {"active"}


async def test_in_one_step_again_and_again(platform: Platform) -> None:
    made = await with_rows(platform)
    snapshot = await take(platform, made)
    for number in range(2):
        await platform.query(made, "drop table t")
        await restore(platform, made, snapshot, finalize_restore=True)
        assert await platform.query(made, COUNT) == 100, number
    listed = (await send_request(platform, "GET", f"{project_path(made)}/branches"))["branches"]
    assert sorted(each["name"] for each in listed) == ["main", "main (old 2)", "main (old)"]
    default = next(each for each in listed if each["default"])
    assert default["name"] == "main"
    for each in listed:
        if each is not default:
            await send_request(platform, "DELETE", f"{project_path(made)}/branches/{each['id']}")
    await platform.run_operations()
    assert await platform.query(made, COUNT) == 100


async def test_of_a_compute_that_sleeps(platform: Platform) -> None:
    made = await with_rows(platform)
    snapshot = await take(platform, made)
    await platform.query(made, "drop table t")
    await suspend_compute(platform, made)
    restored = await restore(platform, made, snapshot, finalize_restore=True)
    endpoint = await platform.get_endpoint(made)
    assert (endpoint.branch_id, endpoint.state, endpoint.pending_state) == (restored["branch"]["id"], "idle", None)
    await start(platform, made, endpoint.id)
    assert await platform.query(made, COUNT) == 100


async def test_roles_are_those_of_the_snapshot_with_the_passwords_of_now(platform: Platform) -> None:
    made = await with_rows(platform)
    await platform.query(made, "create role then_only login")
    roles = f"{project_path(made)}/branches/{made['branch']['id']}/roles"
    snapshot = await take(platform, made)
    await platform.query(made, "drop role then_only")
    await send_request(platform, "POST", roles, status=201, body={"role": {"name": "now_only"}})
    await platform.run_operations()
    restored = await restore(platform, made, snapshot, name="look")
    own = f"{project_path(made)}/branches/{restored['branch']['id']}/roles"
    assert {each["name"] for each in (await send_request(platform, "GET", own))["roles"]} == {
        "neondb_owner",
        "then_only",
    }
    new = (await send_request(platform, "POST", f"{roles}/neondb_owner/reset_password"))["role"]["password"]
    await platform.run_operations()
    await finalize(platform, restored, name="before")
    async with platform.store.read() as rows:
        (kept,) = [
            each for each in await rows.roles.list_in_branch(BranchId(restored["branch"]["id"])) if each.verifier
        ]
    assert (kept.name, kept.is_pending) == ("neondb_owner", False), "Postgres was told"
    assert (await send_request(platform, "GET", f"{own}/neondb_owner/reveal_password"))["password"] == new
    assert (await branch_of(platform, made, made["branch"]["id"]))["name"] == "before"


async def test_a_snapshot_outlives_its_branch_and_what_is_restored_outlives_the_snapshot(platform: Platform) -> None:
    made = await with_rows(platform)
    first = await take(platform, made, name="first")
    root = await restore(platform, made, first, name="root")
    await query(platform, root, "delete from t where n > 50")
    second = await take(platform, root, name="second")
    await send_request(platform, "DELETE", f"{project_path(made)}/branches/{root['branch']['id']}")
    await platform.run_operations()
    async with platform.store.transaction() as rows:
        gone = await rows.branches.get(ProjectId(made["project"]["id"]), BranchId(root["branch"]["id"]))
        assert gone is not None
        await rows.branches.save(replace(gone, recoverable_until=clock.now()))
    await platform.run_tasks()
    await platform.run_operations()
    assert remains(platform, gone.volume_id) == []
    restored = await restore(platform, made, second, name="again")
    assert await query(platform, restored, COUNT) == 50
    volume_id = await volume_of(platform, made, second)
    assert remains(platform, volume_id)
    await send_request(platform, "DELETE", f"{project_path(made)}/snapshots/{second['id']}", status=202)
    await platform.run_operations()
    assert remains(platform, volume_id) == []
    at = datetime.now(UTC).isoformat()
    await query(platform, restored, "insert into t values (0)")
    then = await create_branch(platform, restored, parent_timestamp=at)
    assert (await query(platform, then, COUNT), await query(platform, restored, COUNT)) == (50, 51)


async def test_a_snapshot_that_cannot_be_made_leaves_nothing(platform: Platform) -> None:
    made = await with_rows(platform)
    before = sorted(path.name for path in volumes(platform).iterdir())
    async with platform.store.read() as rows:
        branch = await rows.branches.get(ProjectId(made["project"]["id"]), BranchId(made["branch"]["id"]))
    assert branch is not None
    await suspend_compute(platform, made)
    record = volumes(platform) / branch.volume_id / "volume.json"
    kept = record.read_text()
    record.write_text(kept.replace('"install": "', '"install": "other-'))
    await platform.client.post(f"{project_path(made)}/branches/{branch.id}/snapshot", params={"name": "one"})
    await platform.run_operations()
    record.write_text(kept)
    assert (await send_request(platform, "GET", f"{project_path(made)}/snapshots"))["snapshots"] == []
    assert sorted(path.name for path in volumes(platform).iterdir()) == before
    assert (await take(platform, made, name="one"))["name"] == "one"


async def test_a_restore_that_cannot_be_made_changes_nothing(platform: Platform) -> None:
    made = await with_rows(platform)
    snapshot = await take(platform, made)
    volume_id = await volume_of(platform, made, snapshot)
    record = volumes(platform) / volume_id / "volume.json"
    record.write_text(record.read_text().replace('"install": "', '"install": "other-'))
    parameters = made["connection_uris"][0]["connection_parameters"]
    async with platform.connect(made["endpoints"][0]["id"], parameters["role"], parameters["database"]) as client:
        restored = await restore(platform, made, snapshot, finalize_restore=True)
        assert await client.fetchval(COUNT) == 100, "nobody was cut off"
    work = {each.id: each.status for each in await platform.list_operations(made["project"]["id"])}
    assert [work[OperationId(each["id"])] for each in restored["operations"]] == ["failed", "cancelled", "cancelled"]
    listed = (await send_request(platform, "GET", f"{project_path(made)}/branches"))["branches"]
    assert [each["name"] for each in listed] == ["main"]
    endpoint = await platform.get_endpoint(made)
    assert (endpoint.branch_id, endpoint.state, endpoint.pending_state) == (made["branch"]["id"], "active", None)


async def test_a_connection_string_goes_on_working(served_project: ServedProject) -> None:
    """And whoever is connected is told why they are cut off."""
    path = f"/projects/{served_project.creation_response['project']['id']}"
    async with await served_project.connect_to(served_project.uri) as session:
        await session.execute(MAKE)
    made = (
        served_project.api.post(f"{path}/branches/{served_project.creation_response['branch']['id']}/snapshot")
        .raise_for_status()
        .json()
    )
    wait_until(lambda: "diff_size" in served_project.api.get(f"{path}/snapshots").json()["snapshots"][0])
    session = await served_project.connect()
    await session.execute("drop table t")
    snapshot = f"{path}/snapshots/{made['snapshot']['id']}"
    asked = served_project.api.post(f"{snapshot}/restore", json={"finalize_restore": True}).raise_for_status().json()
    last = f"{path}/operations/{asked['operations'][-1]['id']}"
    wait_until(lambda: served_project.api.get(last).json()["operation"]["status"] == "finished")
    with pytest.raises(psycopg.Error):
        await fetch_value(session, "select 1")
    assert await served_project.fetch_value(COUNT) == 100
