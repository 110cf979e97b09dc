"""Snapshots on real Postgres: what they hold, what is restored from them, and what is left when they go."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

import storages
import world
from bough import clock
from bough.engine.local.folders import Folders
from bough.engine.local.images.image import FileSystem
from bough.ids import BranchId, OperationId, ProjectId, SnapshotId
from branch_world import Json, ask, create_branch, kill_compute, path_of, query, suspend
from cli.program import until
from engine.followers import eventually
from journeys.served import Served, value
from world import Platform

FILE_SYSTEMS: dict[str, FileSystem] = {"reflink": "xfs", "btrfs": "btrfs"}
COUNT = "select count(*) from t"
MAKE = "create table t as select generate_series(1, 100) as n"


@pytest.fixture(params=["plain", *(pytest.param(driver, marks=pytest.mark.long) for driver in FILE_SYSTEMS)])
async def platform(request: pytest.FixtureRequest) -> AsyncIterator[Platform]:
    if request.param == "plain":
        async with world.platform(storage="plain") as made:
            yield made
        return
    with storages.bare_home() as home:
        storages.with_image(home, FILE_SYSTEMS[request.param])
        async with world.platform_in(home.parent, storage=request.param) as made:
            yield made


async def with_rows(platform: Platform) -> Json:
    made = await platform.ready_project()
    await platform.query(made, MAKE)
    return made


async def take(platform: Platform, made: Json, **given: str) -> Json:
    path = f"{path_of(made)}/branches/{made['branch']['id']}/snapshot"
    answer = await platform.client.post(path, params=given)
    assert answer.status_code == 200, answer.text
    await platform.settle()
    snapshot_id = answer.json()["snapshot"]["id"]
    listed = (await ask(platform, "GET", f"{path_of(made)}/snapshots"))["snapshots"]
    return next(each for each in listed if each["id"] == snapshot_id)


async def restore(platform: Platform, made: Json, snapshot: Json, **body: Any) -> Json:
    restored = await ask(platform, "POST", f"{path_of(made)}/snapshots/{snapshot['id']}/restore", body=body)
    await platform.settle()
    return restored


async def finalize(platform: Platform, restored: Json, **body: Any) -> None:
    branch = restored["branch"]["id"]
    await ask(platform, "POST", f"{path_of(restored)}/branches/{branch}/finalize_restore", body=body)
    await platform.settle()
    assert all(each.status != "failed" for each in await platform.operations(restored["branch"]["project_id"]))


async def start(platform: Platform, made: Json, endpoint_id: str) -> None:
    await ask(platform, "POST", f"{path_of(made)}/endpoints/{endpoint_id}/start")
    await platform.settle()


async def branch_of(platform: Platform, made: Json, branch_id: str) -> Json:
    shown: Json = (await ask(platform, "GET", f"{path_of(made)}/branches/{branch_id}"))["branch"]
    return shown


def volumes(platform: Platform) -> Path:
    """Where they are, in an image or not."""
    return Folders(platform.settings).volumes


def remains(platform: Platform, volume_id: str) -> list[str]:
    """What there is of a volume on the disk: its data, its WAL, its history."""
    places = Folders(platform.settings)
    rooms = [place for place in (places.volumes, places.wal, places.history) if place is not None]
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
        await suspend(platform, made)
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
    replica = (await ask(platform, "POST", f"{path_of(made)}/endpoints", status=201, body=asked))["endpoint"]
    await platform.settle()
    restored = await restore(platform, made, snapshot)
    assert (await query(platform, restored, COUNT), await platform.query(made, COUNT)) == (100, 101)
    shown = await branch_of(platform, made, restored["branch"]["id"])
    assert (shown["restore_status"], shown["restored_from"]) == ("restored", snapshot["id"])

    await finalize(platform, restored)
    assert await platform.query(made, COUNT) == 100, "the endpoint is the same, and its data what was restored"
    await start(platform, made, restored["endpoints"][0]["id"])
    assert await query(platform, restored, COUNT) == 101, "the other's is for looking at what was there"
    await eventually(lambda: query(platform, {"endpoints": [replica]}, COUNT), 100)
    await platform.query(made, "insert into t values (0)")
    await eventually(lambda: query(platform, {"endpoints": [replica]}, COUNT), 101)
    new = await branch_of(platform, made, restored["branch"]["id"])
    old = await branch_of(platform, made, made["branch"]["id"])
    assert (new["name"], new["default"], new["restore_status"]) == ("main", True, "finalized")
    assert (old["name"], old["default"]) == ("main (old)", False)
    assert new["restored_as"] == old["id"]
    assert (await branch_of(platform, made, child["branch"]["id"]))["parent_id"] == old["id"]
    endpoints = (await ask(platform, "GET", f"{path_of(made)}/branches/{new['id']}/endpoints"))["endpoints"]
    assert {each["id"] for each in endpoints} == {made["endpoints"][0]["id"], replica["id"]}
    assert {each["current_state"] for each in endpoints} == {"active"}


async def test_in_one_step_again_and_again(platform: Platform) -> None:
    made = await with_rows(platform)
    snapshot = await take(platform, made)
    for number in range(2):
        await platform.query(made, "drop table t")
        await restore(platform, made, snapshot, finalize_restore=True)
        assert await platform.query(made, COUNT) == 100, number
    listed = (await ask(platform, "GET", f"{path_of(made)}/branches"))["branches"]
    assert sorted(each["name"] for each in listed) == ["main", "main (old 2)", "main (old)"]
    default = next(each for each in listed if each["default"])
    assert default["name"] == "main"
    for each in listed:
        if each is not default:
            await ask(platform, "DELETE", f"{path_of(made)}/branches/{each['id']}")
    await platform.settle()
    assert await platform.query(made, COUNT) == 100


async def test_of_a_compute_that_sleeps(platform: Platform) -> None:
    made = await with_rows(platform)
    snapshot = await take(platform, made)
    await platform.query(made, "drop table t")
    await suspend(platform, made)
    restored = await restore(platform, made, snapshot, finalize_restore=True)
    endpoint = await platform.endpoint(made)
    assert (endpoint.branch_id, endpoint.state, endpoint.pending_state) == (restored["branch"]["id"], "idle", None)
    await start(platform, made, endpoint.id)
    assert await platform.query(made, COUNT) == 100


async def test_roles_are_those_of_the_snapshot_with_the_passwords_of_now(platform: Platform) -> None:
    made = await with_rows(platform)
    await platform.query(made, "create role then_only login")
    roles = f"{path_of(made)}/branches/{made['branch']['id']}/roles"
    snapshot = await take(platform, made)
    await platform.query(made, "drop role then_only")
    await ask(platform, "POST", roles, status=201, body={"role": {"name": "now_only"}})
    await platform.settle()
    restored = await restore(platform, made, snapshot, name="look")
    own = f"{path_of(made)}/branches/{restored['branch']['id']}/roles"
    assert {each["name"] for each in (await ask(platform, "GET", own))["roles"]} == {"neondb_owner", "then_only"}
    new = (await ask(platform, "POST", f"{roles}/neondb_owner/reset_password"))["role"]["password"]
    await platform.settle()
    await finalize(platform, restored, name="before")
    async with platform.store.read() as rows:
        (kept,) = [each for each in await rows.roles.of_branch(BranchId(restored["branch"]["id"])) if each.verifier]
    assert (kept.name, kept.is_wished) == ("neondb_owner", False), "Postgres was told"
    assert (await ask(platform, "GET", f"{own}/neondb_owner/reveal_password"))["password"] == new
    assert (await branch_of(platform, made, made["branch"]["id"]))["name"] == "before"


async def test_a_snapshot_outlives_its_branch_and_what_is_restored_outlives_the_snapshot(platform: Platform) -> None:
    made = await with_rows(platform)
    first = await take(platform, made, name="first")
    root = await restore(platform, made, first, name="root")
    await query(platform, root, "delete from t where n > 50")
    second = await take(platform, root, name="second")
    await ask(platform, "DELETE", f"{path_of(made)}/branches/{root['branch']['id']}")
    await platform.settle()
    async with platform.store.transaction() as rows:
        gone = await rows.branches.get(ProjectId(made["project"]["id"]), BranchId(root["branch"]["id"]))
        assert gone is not None
        await rows.branches.save(replace(gone, recoverable_until=clock.now()))
    await platform.run_tasks()
    await platform.settle()
    assert remains(platform, gone.volume_id) == []
    restored = await restore(platform, made, second, name="again")
    assert await query(platform, restored, COUNT) == 50
    volume_id = await volume_of(platform, made, second)
    assert remains(platform, volume_id)
    await ask(platform, "DELETE", f"{path_of(made)}/snapshots/{second['id']}", status=202)
    await platform.settle()
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
    await suspend(platform, made)
    record = volumes(platform) / branch.volume_id / "volume.json"
    kept = record.read_text()
    record.write_text(kept.replace('"install": "', '"install": "other-'))
    await platform.client.post(f"{path_of(made)}/branches/{branch.id}/snapshot", params={"name": "one"})
    await platform.settle()
    record.write_text(kept)
    assert (await ask(platform, "GET", f"{path_of(made)}/snapshots"))["snapshots"] == []
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
    work = {each.id: each.status for each in await platform.operations(made["project"]["id"])}
    assert [work[OperationId(each["id"])] for each in restored["operations"]] == ["failed", "cancelled", "cancelled"]
    listed = (await ask(platform, "GET", f"{path_of(made)}/branches"))["branches"]
    assert [each["name"] for each in listed] == ["main"]
    endpoint = await platform.endpoint(made)
    assert (endpoint.branch_id, endpoint.state, endpoint.pending_state) == (made["branch"]["id"], "active", None)


async def test_a_connection_string_goes_on_working(one: Served) -> None:
    """And whoever is connected is told why they are cut off."""
    path = f"/projects/{one.made['project']['id']}"
    async with await one.entered(one.uri) as session:
        await session.execute(MAKE)
    made = one.api.post(f"{path}/branches/{one.made['branch']['id']}/snapshot").raise_for_status().json()
    until(lambda: "diff_size" in one.api.get(f"{path}/snapshots").json()["snapshots"][0])
    session = await one.connect()
    await session.execute("drop table t")
    snapshot = f"{path}/snapshots/{made['snapshot']['id']}"
    asked = one.api.post(f"{snapshot}/restore", json={"finalize_restore": True}).raise_for_status().json()
    last = f"{path}/operations/{asked['operations'][-1]['id']}"
    until(lambda: one.api.get(last).json()["operation"]["status"] == "finished")
    with pytest.raises(psycopg.Error):
        await value(session, "select 1")
    assert await one.value(COUNT) == 100
