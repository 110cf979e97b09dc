"""Restores of branches with real Postgres: the data, roles and passwords afterwards, and what is kept."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

from bough import clock
from bough.domain.operation import OperationStatus
from bough.ids import BranchId, EndpointId, ProjectId, VolumeId
from support.branches import Json, create_branch, project_path, query, send_request, suspend_compute
from support.platform import Platform
from support.replicas import wait_until_equal


async def _current_time(platform: Platform, created: Json) -> str:
    """A time after everything that is committed and before everything that follows."""
    now: datetime = await query(platform, created, "select clock_timestamp()")
    await asyncio.sleep(0.01)
    return now.isoformat()


async def _restore(
    platform: Platform, created: Json, source: Json | None = None, name: str | None = None, **point: Any
) -> Json:
    branch = created["branch"]["id"]
    body = {"source_branch_id": (source or created)["branch"]["id"], **point}
    if name is not None:
        body["preserve_under_name"] = name
    done = await send_request(platform, "POST", f"{project_path(created)}/branches/{branch}/restore", body=body)
    await platform.run_operations()
    ended = await platform.list_operations(created["branch"]["project_id"])
    failed = [each for each in ended if each.status not in ("finished", "skipped")]
    assert not failed, [(each.kind, each.error) for each in failed]
    return done


async def _get_branch(platform: Platform, created: Json, name: str) -> Json:
    listed = (await send_request(platform, "GET", f"{project_path(created)}/branches"))["branches"]
    return {"branch": next(each for each in listed if each["name"] == name)}


async def _add_endpoint(platform: Platform, created: Json, kind: str = "read_write") -> Json:
    """Add an endpoint to the branch."""
    body = {"endpoint": {"branch_id": created["branch"]["id"], "type": kind}}
    endpoint = await send_request(platform, "POST", f"{project_path(created)}/endpoints", status=201, body=body)
    await platform.run_operations()
    return {**created, "endpoints": [endpoint["endpoint"]]}


async def _stored_verifiers(platform: Platform, created: Json) -> dict[str, str | None]:
    async with platform.store.read() as rows:
        return {role.name: role.verifier for role in await rows.roles.list_in_branch(BranchId(created["branch"]["id"]))}


async def _read_verifiers(platform: Platform, created: Json) -> dict[str, str | None]:
    """Read the verifiers from Postgres."""
    contents = await platform.engine.read_compute_contents(EndpointId(created["endpoints"][0]["id"]))
    assert contents is not None
    return {role.name: role.verifier for role in contents.roles}


async def _get_volume_id(platform: Platform, created: Json) -> VolumeId:
    async with platform.store.read() as rows:
        found = await rows.branches.get(ProjectId(created["branch"]["project_id"]), BranchId(created["branch"]["id"]))
    assert found is not None
    return found.volume_id


async def test_a_branch_goes_back_with_its_id_endpoints_and_passwords(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await query(platform, created, "create table t as select 1 as n")
    await query(platform, created, "create role early login password 'old'")
    before = await _current_time(platform, created)
    await query(platform, created, "insert into t values (2)")
    await query(platform, created, "alter role early password 'new'")
    await query(platform, created, "create role late login")
    await query(platform, created, "create database later")
    child = await create_branch(platform, created, name="child", endpoint=False)
    verifiers = {**await _stored_verifiers(platform, child)}
    old = await _get_volume_id(platform, created)

    done = await _restore(platform, created, name="kept", source_timestamp=before)
    assert [each["action"] for each in done["operations"]] == ["create_timeline", "start_compute"]
    assert await query(platform, created, "select array_agg(n) from t") == [1]
    assert await query(platform, created, "select count(*) from pg_database where datname = 'later'") == 0
    after = await _stored_verifiers(platform, created)
    assert after == {name: verifiers[name] for name in ("neondb_owner", "early")}
    assert await _read_verifiers(platform, created) == after
    reveal = f"{project_path(created)}/branches/{created['branch']['id']}/roles/neondb_owner/reveal_password"
    assert (await send_request(platform, "GET", reveal))["password"] in created["connection_uris"][0]["connection_uri"]
    async with platform.connect(created["endpoints"][0]["id"], "neondb_owner", "neondb") as client:
        assert await client.fetchval("select rolname from pg_roles where rolname = 'late'") is None
    databases = (
        await send_request(platform, "GET", f"{project_path(created)}/branches/{created['branch']['id']}/databases")
    )["databases"]
    assert [each["name"] for each in databases] == ["neondb"]

    kept = await _add_endpoint(platform, await _get_branch(platform, created, "kept"))
    assert await _get_volume_id(platform, kept) == old
    assert await query(platform, kept, "select array_agg(n) from t") == [1, 2]
    assert await _stored_verifiers(platform, kept) == verifiers
    assert kept["branch"]["parent_id"] == created["branch"]["id"]
    assert kept["branch"]["parent_lsn"]
    assert (await _get_branch(platform, created, "child"))["branch"]["parent_id"] == kept["branch"]["id"]


async def test_what_happens_until_the_switch_is_in_what_is_kept(platform: Platform) -> None:
    """Rows and passwords: the branch keeps serving while its new data is prepared."""
    created = await platform.create_ready_project()
    await query(platform, created, "create table t as select 1 as n")
    body = {
        "source_branch_id": created["branch"]["id"],
        "preserve_under_name": "kept",
        "source_timestamp": await _current_time(platform, created),
    }
    await send_request(
        platform, "POST", f"{project_path(created)}/branches/{created['branch']['id']}/restore", body=body
    )
    await query(platform, created, "insert into t values (2)")
    await query(platform, created, "alter role neondb_owner password 'changed'")
    verifier = (await _read_verifiers(platform, created))["neondb_owner"]
    await platform.run_operations()
    assert await query(platform, created, "select array_agg(n) from t") == [1]
    assert (await _read_verifiers(platform, created))["neondb_owner"] == verifier
    assert (await _stored_verifiers(platform, created))["neondb_owner"] == verifier
    kept = await _add_endpoint(platform, await _get_branch(platform, created, "kept"))
    assert await query(platform, kept, "select array_agg(n) from t") == [1, 2]


async def test_going_back_again_and_to_before_the_first_time(platform: Platform) -> None:
    """By time and by WAL position, also in a volume that another branch uses by now."""
    created = await platform.create_ready_project()
    await query(platform, created, "create table t as select 1 as n")
    first = await _current_time(platform, created)
    await query(platform, created, "insert into t values (2)")
    second = await query(platform, created, "select pg_current_wal_insert_lsn()::text")
    await query(platform, created, "insert into t values (3)")
    discarded = await _current_time(platform, created)
    await _restore(platform, created, name="one", source_lsn=second)
    assert await query(platform, created, "select array_agg(n) from t") == [1, 2]
    await query(platform, created, "insert into t values (4)")
    third = await _current_time(platform, created)
    await query(platform, created, "insert into t values (5)")
    await suspend_compute(platform, created)
    await _restore(platform, created, name="two", source_timestamp=third)
    shown = await send_request(platform, "GET", f"{project_path(created)}/endpoints/{created['endpoints'][0]['id']}")
    assert shown["endpoint"]["current_state"] == "idle"
    then = await create_branch(platform, created, name="then", parent_timestamp=discarded)
    assert await query(platform, then, "select array_agg(n) from t") == [1, 2]
    await _restore(platform, created, name="three", source_timestamp=first)
    await send_request(platform, "POST", f"{project_path(created)}/endpoints/{created['endpoints'][0]['id']}/start")
    await platform.run_operations()
    assert await query(platform, created, "select array_agg(n) from t") == [1]


async def test_a_reset_brings_what_the_parent_has_and_what_was_there_can_be_gone_back_to(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await query(platform, created, "create table t as select 1 as n")
    soon = (clock.now() + timedelta(minutes=10)).isoformat()
    child = await create_branch(platform, created, name="child", expires_at=soon)
    await query(platform, child, "alter role neondb_owner password 'own'")
    await query(platform, child, "insert into t values (7)")
    was = await _current_time(platform, child)
    await query(platform, created, "insert into t values (2)")
    old, before = await _get_volume_id(platform, child), (await _get_branch(platform, created, "child"))["branch"]
    await _restore(platform, child, created)
    assert await query(platform, child, "select array_agg(n) from t") == [1, 2]
    after = (await _get_branch(platform, created, "child"))["branch"]
    assert after["last_reset_at"] > before["created_at"]
    assert after["expires_at"] > before["expires_at"]
    assert after["parent_timestamp"] > before["parent_timestamp"]
    assert (await _stored_verifiers(platform, child))["neondb_owner"] != (await _stored_verifiers(platform, created))[
        "neondb_owner"
    ]
    async with platform.store.read() as rows:
        assert [volume.id for volume in await rows.lineages.list_retired_volumes()] == [old]
    await platform.run_tasks()  # removes the data of the old volume, but not its history
    await send_request(
        platform,
        "PATCH",
        f"{project_path(child)}/branches/{child['branch']['id']}",
        body={"branch": {"expires_at": None}},
    )
    then = await create_branch(platform, child, name="then", parent_timestamp=was)
    assert await query(platform, then, "select array_agg(n order by n) from t") == [1, 7]


async def test_read_replicas_follow_what_the_branch_has_then(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await query(platform, created, "create table t as select 1 as n")
    replica = await _add_endpoint(platform, created, "read_only")
    before = await _current_time(platform, created)
    await query(platform, created, "insert into t values (2)")
    await _restore(platform, created, name="kept", source_timestamp=before)
    assert await query(platform, replica, "select array_agg(n) from t") == [1]
    await query(platform, created, "insert into t values (3)")
    await wait_until_equal(lambda: query(platform, replica, "select array_agg(n) from t"), [1, 3])


async def test_a_branch_that_nobody_serves_is_restored_too(platform: Platform) -> None:
    created = await platform.create_ready_project()
    bare = await create_branch(platform, created, name="bare", endpoint=False)
    await query(platform, created, "create table t as select 1 as n")
    await _restore(platform, bare, created, name="bare before")
    assert await query(platform, await _add_endpoint(platform, bare), "select n from t") == 1
    kept = await _add_endpoint(platform, await _get_branch(platform, created, "bare before"))
    assert await query(platform, kept, "select to_regclass('t')::text") is None


async def test_children_that_were_made_meanwhile_are_not_left_without_a_parent(platform: Platform) -> None:
    """The restore fails, and nothing has changed."""
    created = await platform.create_ready_project()
    child = await create_branch(platform, created, name="child")
    body = {"source_branch_id": created["branch"]["id"]}
    await send_request(platform, "POST", f"{project_path(created)}/branches/{child['branch']['id']}/restore", body=body)
    old = await _get_volume_id(platform, child)
    await create_branch(platform, child, name="grandchild", endpoint=False)
    every = await platform.list_operations(created["project"]["id"])
    (restore,) = [each for each in every if each.status is OperationStatus.FAILED]
    assert "has child branches" in (restore.error or "")
    (start,) = [each for each in every if each.status is OperationStatus.CANCELLED]
    assert start.after == restore.id
    assert await _get_volume_id(platform, child) == old
    assert await query(platform, child, "select 1") == 1
    assert (await platform.engine.observe()).volumes >= {old}


async def test_a_point_that_knows_other_roles_and_databases(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await query(platform, created, "create role gone login password 'a'")
    await query(platform, created, "create database gone_too")
    before = await _current_time(platform, created)
    await query(platform, created, "drop role gone")
    await query(platform, created, "drop database gone_too")
    await query(platform, created, "create role late login password 'b'")
    reset = f"{project_path(created)}/branches/{created['branch']['id']}/roles/neondb_owner/reset_password"
    password = (await send_request(platform, "POST", reset))["role"]["password"]
    await platform.run_operations()
    then = await create_branch(platform, created, name="then", parent_timestamp=before)
    of_branch = f"{project_path(created)}/branches/{then['branch']['id']}"
    roles = {role["name"] for role in (await send_request(platform, "GET", f"{of_branch}/roles"))["roles"]}
    assert roles == {"neondb_owner", "gone"}
    databases = {each["name"] for each in (await send_request(platform, "GET", f"{of_branch}/databases"))["databases"]}
    assert databases == {"neondb", "gone_too"}
    assert password in then["connection_uris"][0]["connection_uri"]
    assert (await send_request(platform, "GET", f"{of_branch}/roles/neondb_owner/reveal_password"))[
        "password"
    ] == password
    assert (await _stored_verifiers(platform, then))["neondb_owner"] == (await _stored_verifiers(platform, created))[
        "neondb_owner"
    ]


async def test_a_protected_parents_passwords_open_no_point_of_a_child(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await query(platform, created, "create role early login password 'a'")
    before = await _current_time(platform, created)
    await send_request(
        platform,
        "PATCH",
        f"{project_path(created)}/branches/{created['branch']['id']}",
        body={"branch": {"protected": True}},
    )
    child = await create_branch(platform, created, name="child", parent_timestamp=before)
    verifiers = await _stored_verifiers(platform, child)
    assert verifiers["early"] is None
    assert verifiers["neondb_owner"] not in (None, (await _stored_verifiers(platform, created))["neondb_owner"])
    born = await query(platform, child, "select pg_current_wal_insert_lsn()::text")
    body = {"branch": {"parent_id": child["branch"]["id"], "parent_lsn": _before(born)}}
    refused = await send_request(platform, "POST", f"{project_path(created)}/branches", status=400, body=body)
    assert "is not in the branch's history" in refused["message"]


def _before(lsn: str) -> str:
    """A WAL position of the parent, before the child was created."""
    high, low = lsn.split("/")
    return f"{high}/{max(0, int(low, 16) - 0x1000000):X}"


async def test_a_reset_from_a_protected_parent_brings_none_of_its_passwords(platform: Platform) -> None:
    created = await platform.create_ready_project()
    child = await create_branch(platform, created, name="child")
    await query(platform, created, "create role app login password 'known to many'")
    protected = {"branch": {"protected": True}}
    await send_request(platform, "PATCH", f"{project_path(created)}/branches/{created['branch']['id']}", body=protected)
    own = await _read_verifiers(platform, child)
    await _restore(platform, child, created)
    assert await _read_verifiers(platform, child) == {**own, "app": None} == await _stored_verifiers(platform, child)
