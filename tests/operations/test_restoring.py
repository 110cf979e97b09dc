"""Branches that get other data, with real Postgres: what they hold then, who can enter, and what is kept."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

from bough import clock
from bough.domain.operation import OperationStatus
from bough.ids import BranchId, EndpointId, ProjectId, VolumeId
from support.branches import Json, create_branch, project_path, query, send_request, suspend_compute
from support.platform import Platform
from support.replicas import wait_until_equal


async def _now(platform: Platform, made: Json) -> str:
    """A moment after all that was committed, and before all that comes."""
    moment: datetime = await query(platform, made, "select clock_timestamp()")
    await asyncio.sleep(0.01)
    return moment.isoformat()


async def _restore(
    platform: Platform, made: Json, source: Json | None = None, name: str | None = None, **point: Any
) -> Json:
    branch = made["branch"]["id"]
    body = {"source_branch_id": (source or made)["branch"]["id"], **point}
    if name is not None:
        body["preserve_under_name"] = name
    done = await send_request(platform, "POST", f"{project_path(made)}/branches/{branch}/restore", body=body)
    await platform.run_operations()
    ended = await platform.list_operations(made["branch"]["project_id"])
    failed = [each for each in ended if each.status not in ("finished", "skipped")]
    assert not failed, [(each.action, each.error) for each in failed]
    return done


async def _branch(platform: Platform, made: Json, name: str) -> Json:
    listed = (await send_request(platform, "GET", f"{project_path(made)}/branches"))["branches"]
    return {"branch": next(each for each in listed if each["name"] == name)}


async def _opened(platform: Platform, made: Json, kind: str = "read_write") -> Json:
    """With an endpoint of its own."""
    asked = {"endpoint": {"branch_id": made["branch"]["id"], "type": kind}}
    endpoint = await send_request(platform, "POST", f"{project_path(made)}/endpoints", status=201, body=asked)
    await platform.run_operations()
    return {**made, "endpoints": [endpoint["endpoint"]]}


async def _verifiers(platform: Platform, made: Json) -> dict[str, str | None]:
    async with platform.store.read() as rows:
        return {role.name: role.verifier for role in await rows.roles.list_in_branch(BranchId(made["branch"]["id"]))}


async def _inside(platform: Platform, made: Json) -> dict[str, str | None]:
    """The same as Postgres has them."""
    seen = await platform.engine.read_compute_contents(EndpointId(made["endpoints"][0]["id"]))
    assert seen is not None
    return {role.name: role.verifier for role in seen.roles}


async def _volume(platform: Platform, made: Json) -> VolumeId:
    async with platform.store.read() as rows:
        found = await rows.branches.get(ProjectId(made["branch"]["project_id"]), BranchId(made["branch"]["id"]))
    assert found is not None
    return found.volume_id


async def test_a_branch_goes_back_with_its_id_endpoints_and_passwords(platform: Platform) -> None:
    made = await platform.create_ready_project()
    await query(platform, made, "create table t as select 1 as n")
    await query(platform, made, "create role early login password 'old'")
    before = await _now(platform, made)
    await query(platform, made, "insert into t values (2)")
    await query(platform, made, "alter role early password 'new'")
    await query(platform, made, "create role late login")
    await query(platform, made, "create database later")
    child = await create_branch(platform, made, name="child", endpoint=False)
    verifiers = {**await _verifiers(platform, child)}
    old = await _volume(platform, made)

    done = await _restore(platform, made, name="kept", source_timestamp=before)
    assert [each["action"] for each in done["operations"]] == ["create_timeline", "start_compute"]
    assert await query(platform, made, "select array_agg(n) from t") == [1]
    assert await query(platform, made, "select count(*) from pg_database where datname = 'later'") == 0
    after = await _verifiers(platform, made)
    assert after == {name: verifiers[name] for name in ("neondb_owner", "early")}
    assert await _inside(platform, made) == after
    reveal = f"{project_path(made)}/branches/{made['branch']['id']}/roles/neondb_owner/reveal_password"
    assert (await send_request(platform, "GET", reveal))["password"] in made["connection_uris"][0]["connection_uri"]
    async with platform.connect(made["endpoints"][0]["id"], "neondb_owner", "neondb") as client:
        assert await client.fetchval("select rolname from pg_roles where rolname = 'late'") is None
    databases = (
        await send_request(platform, "GET", f"{project_path(made)}/branches/{made['branch']['id']}/databases")
    )["databases"]
    assert [each["name"] for each in databases] == ["neondb"]

    kept = await _opened(platform, await _branch(platform, made, "kept"))
    assert await _volume(platform, kept) == old
    assert await query(platform, kept, "select array_agg(n) from t") == [1, 2]
    assert await _verifiers(platform, kept) == verifiers
    assert kept["branch"]["parent_id"] == made["branch"]["id"]
    assert kept["branch"]["parent_lsn"]
    assert (await _branch(platform, made, "child"))["branch"]["parent_id"] == kept["branch"]["id"]


async def test_what_happens_until_the_switch_is_in_what_is_kept(platform: Platform) -> None:
    """Rows and passwords: the branch serves while its new data is made."""
    made = await platform.create_ready_project()
    await query(platform, made, "create table t as select 1 as n")
    body = {
        "source_branch_id": made["branch"]["id"],
        "preserve_under_name": "kept",
        "source_timestamp": await _now(platform, made),
    }
    await send_request(platform, "POST", f"{project_path(made)}/branches/{made['branch']['id']}/restore", body=body)
    await query(platform, made, "insert into t values (2)")
    await query(platform, made, "alter role neondb_owner password 'changed'")
    verifier = (await _inside(platform, made))["neondb_owner"]
    await platform.run_operations()
    assert await query(platform, made, "select array_agg(n) from t") == [1]
    assert (await _inside(platform, made))["neondb_owner"] == verifier
    assert (await _verifiers(platform, made))["neondb_owner"] == verifier
    kept = await _opened(platform, await _branch(platform, made, "kept"))
    assert await query(platform, kept, "select array_agg(n) from t") == [1, 2]


async def test_going_back_again_and_to_before_the_first_time(platform: Platform) -> None:
    """By moments and by positions, also of a volume that another branch has by now."""
    made = await platform.create_ready_project()
    await query(platform, made, "create table t as select 1 as n")
    first = await _now(platform, made)
    await query(platform, made, "insert into t values (2)")
    second = await query(platform, made, "select pg_current_wal_insert_lsn()::text")
    await query(platform, made, "insert into t values (3)")
    taken_away = await _now(platform, made)
    await _restore(platform, made, name="one", source_lsn=second)
    assert await query(platform, made, "select array_agg(n) from t") == [1, 2]
    await query(platform, made, "insert into t values (4)")
    third = await _now(platform, made)
    await query(platform, made, "insert into t values (5)")
    await suspend_compute(platform, made)
    await _restore(platform, made, name="two", source_timestamp=third)
    shown = await send_request(platform, "GET", f"{project_path(made)}/endpoints/{made['endpoints'][0]['id']}")
    assert shown["endpoint"]["current_state"] == "idle"
    then = await create_branch(platform, made, name="then", parent_timestamp=taken_away)
    assert await query(platform, then, "select array_agg(n) from t") == [1, 2]
    await _restore(platform, made, name="three", source_timestamp=first)
    await send_request(platform, "POST", f"{project_path(made)}/endpoints/{made['endpoints'][0]['id']}/start")
    await platform.run_operations()
    assert await query(platform, made, "select array_agg(n) from t") == [1]


async def test_a_reset_brings_what_the_parent_has_and_what_was_there_can_be_gone_back_to(platform: Platform) -> None:
    made = await platform.create_ready_project()
    await query(platform, made, "create table t as select 1 as n")
    soon = (clock.now() + timedelta(minutes=10)).isoformat()
    child = await create_branch(platform, made, name="child", expires_at=soon)
    await query(platform, child, "alter role neondb_owner password 'own'")
    await query(platform, child, "insert into t values (7)")
    was = await _now(platform, child)
    await query(platform, made, "insert into t values (2)")
    old, before = await _volume(platform, child), (await _branch(platform, made, "child"))["branch"]
    await _restore(platform, child, made)
    assert await query(platform, child, "select array_agg(n) from t") == [1, 2]
    after = (await _branch(platform, made, "child"))["branch"]
    assert after["last_reset_at"] > before["created_at"]
    assert after["expires_at"] > before["expires_at"]
    assert after["parent_timestamp"] > before["parent_timestamp"]
    assert (await _verifiers(platform, child))["neondb_owner"] != (await _verifiers(platform, made))["neondb_owner"]
    async with platform.store.read() as rows:
        assert [volume.id for volume in await rows.lineages.list_retired_volumes()] == [old]
    await platform.run_tasks()  # the data of the old volume goes, and its history stays
    await send_request(
        platform,
        "PATCH",
        f"{project_path(child)}/branches/{child['branch']['id']}",
        body={"branch": {"expires_at": None}},
    )
    then = await create_branch(platform, child, name="then", parent_timestamp=was)
    assert await query(platform, then, "select array_agg(n order by n) from t") == [1, 7]


async def test_read_replicas_follow_what_the_branch_has_then(platform: Platform) -> None:
    made = await platform.create_ready_project()
    await query(platform, made, "create table t as select 1 as n")
    replica = await _opened(platform, made, "read_only")
    before = await _now(platform, made)
    await query(platform, made, "insert into t values (2)")
    await _restore(platform, made, name="kept", source_timestamp=before)
    assert await query(platform, replica, "select array_agg(n) from t") == [1]
    await query(platform, made, "insert into t values (3)")
    await wait_until_equal(lambda: query(platform, replica, "select array_agg(n) from t"), [1, 3])


async def test_a_branch_that_nobody_serves_is_restored_too(platform: Platform) -> None:
    made = await platform.create_ready_project()
    bare = await create_branch(platform, made, name="bare", endpoint=False)
    await query(platform, made, "create table t as select 1 as n")
    await _restore(platform, bare, made, name="bare before")
    assert await query(platform, await _opened(platform, bare), "select n from t") == 1
    kept = await _opened(platform, await _branch(platform, made, "bare before"))
    assert await query(platform, kept, "select to_regclass('t')::text") is None


async def test_children_that_were_made_meanwhile_are_not_left_without_a_parent(platform: Platform) -> None:
    """The restore fails then, and nothing is other than it was."""
    made = await platform.create_ready_project()
    child = await create_branch(platform, made, name="child")
    body = {"source_branch_id": made["branch"]["id"]}
    await send_request(platform, "POST", f"{project_path(made)}/branches/{child['branch']['id']}/restore", body=body)
    old = await _volume(platform, child)
    await create_branch(platform, child, name="grandchild", endpoint=False)
    every = await platform.list_operations(made["project"]["id"])
    (restore,) = [each for each in every if each.status is OperationStatus.FAILED]
    assert "has child branches" in (restore.error or "")
    (start,) = [each for each in every if each.status is OperationStatus.CANCELLED]
    assert start.after == restore.id
    assert await _volume(platform, child) == old
    assert await query(platform, child, "select 1") == 1
    assert (await platform.engine.observe()).volumes >= {old}


async def test_a_point_that_knows_other_roles_and_databases(platform: Platform) -> None:
    made = await platform.create_ready_project()
    await query(platform, made, "create role gone login password 'a'")
    await query(platform, made, "create database gone_too")
    before = await _now(platform, made)
    await query(platform, made, "drop role gone")
    await query(platform, made, "drop database gone_too")
    await query(platform, made, "create role late login password 'b'")
    reset = f"{project_path(made)}/branches/{made['branch']['id']}/roles/neondb_owner/reset_password"
    password = (await send_request(platform, "POST", reset))["role"]["password"]
    await platform.run_operations()
    then = await create_branch(platform, made, name="then", parent_timestamp=before)
    of_branch = f"{project_path(made)}/branches/{then['branch']['id']}"
    roles = {role["name"] for role in (await send_request(platform, "GET", f"{of_branch}/roles"))["roles"]}
    assert roles == {"neondb_owner", "gone"}
    databases = {each["name"] for each in (await send_request(platform, "GET", f"{of_branch}/databases"))["databases"]}
    assert databases == {"neondb", "gone_too"}
    assert password in then["connection_uris"][0]["connection_uri"]
    assert (await send_request(platform, "GET", f"{of_branch}/roles/neondb_owner/reveal_password"))[
        "password"
    ] == password
    assert (await _verifiers(platform, then))["neondb_owner"] == (await _verifiers(platform, made))["neondb_owner"]


async def test_a_protected_parents_passwords_open_no_point_of_a_child(platform: Platform) -> None:
    made = await platform.create_ready_project()
    await query(platform, made, "create role early login password 'a'")
    before = await _now(platform, made)
    await send_request(
        platform, "PATCH", f"{project_path(made)}/branches/{made['branch']['id']}", body={"branch": {"protected": True}}
    )
    child = await create_branch(platform, made, name="child", parent_timestamp=before)
    verifiers = await _verifiers(platform, child)
    assert verifiers["early"] is None
    assert verifiers["neondb_owner"] not in (None, (await _verifiers(platform, made))["neondb_owner"])
    born = await query(platform, child, "select pg_current_wal_insert_lsn()::text")
    body = {"branch": {"parent_id": child["branch"]["id"], "parent_lsn": _earlier(born)}}
    refused = await send_request(platform, "POST", f"{project_path(made)}/branches", status=400, body=body)
    assert "is not in the branch's history" in refused["message"]


def _earlier(lsn: str) -> str:
    """A position of the parent's life, before the child was anybody's."""
    high, low = lsn.split("/")
    return f"{high}/{max(0, int(low, 16) - 0x1000000):X}"


async def test_a_reset_from_a_protected_parent_brings_none_of_its_passwords(platform: Platform) -> None:
    made = await platform.create_ready_project()
    child = await create_branch(platform, made, name="child")
    await query(platform, made, "create role app login password 'known to many'")
    protected = {"branch": {"protected": True}}
    await send_request(platform, "PATCH", f"{project_path(made)}/branches/{made['branch']['id']}", body=protected)
    own = await _inside(platform, child)
    await _restore(platform, child, made)
    assert await _inside(platform, child) == {**own, "app": None} == await _verifiers(platform, child)
