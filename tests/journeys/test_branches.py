"""Branches on real Postgres: what they begin with, what they share and do not, and how they end."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from bough import clock
from bough.ids import BranchId, EndpointId
from support.branches import (
    begin_branch,
    create_branch,
    kill_compute,
    project_path,
    query,
    send_request,
    suspend_compute,
)
from support.platform import Platform

COUNT = "select count(*) from t"


async def test_a_branch_has_what_was_committed_and_goes_its_own_way(platform: Platform) -> None:
    made = await platform.create_ready_project()
    await platform.query(made, "create table t as select generate_series(1, 1000) as n")
    branch = await create_branch(platform, made, name="dev")
    shown = (await send_request(platform, "GET", f"{project_path(made)}/branches/{branch['branch']['id']}"))["branch"]
    assert (shown["current_state"], shown["parent_id"]) == ("ready", made["branch"]["id"])
    assert shown["parent_lsn"]
    assert shown["created_at"] <= shown["parent_timestamp"]
    assert await query(platform, branch, COUNT) == 1000
    await query(platform, branch, "delete from t where n > 10")
    await platform.query(made, "insert into t values (1001)")
    assert (await platform.query(made, COUNT), await query(platform, branch, COUNT)) == (1001, 10)


@pytest.mark.parametrize("fields", [{}, {"branch": {"role_name": "o'wn \"er", "database_name": "d.b"}}])
async def test_a_project_and_at_once_a_branch_in_it(platform: Platform, fields: dict[str, object]) -> None:
    """Whoever never repeats a request gets both."""
    made = await platform.create_project(**fields)
    branch = await begin_branch(platform, made)
    assert [each["status"] for each in branch["operations"]] == ["scheduling", "scheduling"]
    await platform.run_operations()
    role, database = made["roles"][0]["name"], made["databases"][0]["name"]
    assert await query(platform, branch, "select current_user::text", role, database) == role
    names = "select string_agg(datname, ' ' order by datname) from pg_database where not datistemplate"
    assert await query(platform, branch, names, role, database) == " ".join(sorted([database, "postgres"]))
    assert [each["name"] for each in branch["roles"]] == [role]
    assert branch["roles"][0]["password"] == made["roles"][0]["password"]


@pytest.mark.parametrize("state", ["running", "sleeping", "killed", "without an endpoint"])
async def test_of_a_parent_in_any_state(platform: Platform, state: str) -> None:
    made = await platform.create_ready_project()
    await platform.query(made, "create table t as select generate_series(1, 100) as n")
    if state == "sleeping":
        await suspend_compute(platform, made)
    elif state == "killed":
        await kill_compute(platform, made)
    elif state == "without an endpoint":
        await send_request(platform, "DELETE", f"{project_path(made)}/endpoints/{made['endpoints'][0]['id']}")
        await platform.run_operations()
    branch = await create_branch(platform, made)
    assert await query(platform, branch, COUNT) == 100


async def test_a_deep_chain(platform: Platform) -> None:
    tip = await platform.create_ready_project()
    await platform.query(tip, "create table t (n int)")
    for depth in range(1, 11):
        await query(platform, tip, f"insert into t values ({depth})")
        tip = await create_branch(platform, tip, name=f"depth {depth}")
    assert await query(platform, tip, "select array_agg(n order by n) from t") == list(range(1, 11))
    listed = (await send_request(platform, "GET", f"{project_path(tip)}/branches"))["branches"]
    parents = {each["id"]: each.get("parent_id") for each in listed}
    place, depth = tip["branch"]["id"], 0
    while place := parents[place]:
        depth += 1
    assert depth == 10


async def test_a_wide_fan(platform: Platform, is_long_run: bool) -> None:
    made = await platform.create_ready_project()
    await platform.query(made, "create table t as select generate_series(1, 100) as n")
    width = 100 if is_long_run else 12
    fan = []
    for number in range(width):
        fan.append(await begin_branch(platform, made, endpoint=False, name=f"leaf {number}"))
        await asyncio.sleep(1 / 30)  # no faster than a key may ask
    async with platform.background_runner():  # several at once
        await platform.run_operations()
    listed = (await send_request(platform, "GET", f"{project_path(made)}/branches"))["branches"]
    assert {each["current_state"] for each in listed} == {"ready"}
    assert (await send_request(platform, "GET", f"{project_path(made)}/branches/count"))["count"] == width + 1
    for leaf in (fan[0], fan[-1]):
        body = {"endpoint": {"branch_id": leaf["branch"]["id"], "type": "read_write"}}
        endpoint = await send_request(platform, "POST", f"{project_path(made)}/endpoints", status=201, body=body)
        await platform.run_operations()
        assert await query(platform, {"endpoints": [endpoint["endpoint"]]}, COUNT) == 100


async def test_a_child_of_a_protected_branch_has_other_passwords(platform: Platform) -> None:
    """Also for a role that was made with SQL a moment before, and is in no row yet."""
    made = await platform.create_ready_project()
    await send_request(
        platform, "PATCH", f"{project_path(made)}/branches/{made['branch']['id']}", body={"branch": {"protected": True}}
    )
    await platform.query(made, "create role app login password 'known to many'")
    branch = await create_branch(platform, made)
    before = await platform.engine.read_compute_contents(EndpointId(made["endpoints"][0]["id"]))
    after = await platform.engine.read_compute_contents(EndpointId(branch["endpoints"][0]["id"]))
    assert before is not None and after is not None
    old = {role.name: role.verifier for role in before.roles}
    new = {role.name: role.verifier for role in after.roles}
    assert old.keys() == new.keys() == {"app", "neondb_owner"}
    assert new["app"] is None
    assert old["neondb_owner"] != new["neondb_owner"]
    async with platform.store.read() as rows:
        known = {role.name: role for role in await rows.roles.list_in_branch(BranchId(branch["branch"]["id"]))}
    assert {name: role.verifier for name, role in known.items()} == new
    assert not any(role.is_pending for role in known.values())
    assert branch["roles"][0]["password"] != made["roles"][0]["password"]
    revealed = await send_request(
        platform, "GET", f"{project_path(made)}/branches/{branch['branch']['id']}/roles/neondb_owner/reveal_password"
    )
    assert revealed["password"] == branch["roles"][0]["password"]


async def test_what_sql_made_in_the_parent_is_known_of_the_child_at_once(platform: Platform) -> None:
    made = await platform.create_ready_project()
    await platform.query(made, "create role app login password 'x'")
    await platform.query(made, "grant app to neondb_owner")
    await platform.query(made, "create database made_with_sql owner app")
    branch = await create_branch(platform, made, endpoint=False)
    path = f"{project_path(made)}/branches/{branch['branch']['id']}"
    assert [each["name"] for each in (await send_request(platform, "GET", f"{path}/roles"))["roles"]] == [
        "app",
        "neondb_owner",
    ]
    listed = (await send_request(platform, "GET", f"{path}/databases"))["databases"]
    assert {each["name"]: each["owner_name"] for each in listed} == {"neondb": "neondb_owner", "made_with_sql": "app"}


async def test_a_deleted_branch_leaves_nothing_but_its_name_in_a_list(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await platform.create_ready_project()
    before = await platform.engine.observe()
    branch = await create_branch(platform, made, name="short")
    path = f"{project_path(made)}/branches/{branch['branch']['id']}"
    gone = await send_request(platform, "DELETE", path)
    assert [each["action"] for each in gone["operations"]] == ["suspend_compute"]
    await platform.run_operations()
    over = clock.now() + timedelta(days=1)
    with monkeypatch.context() as then:
        then.setattr(clock, "now", lambda: over)
        await platform.run_tasks()
    await platform.run_operations()
    after = await platform.engine.observe()
    assert after.volumes == before.volumes
    await send_request(platform, "GET", path, status=404)
    await send_request(platform, "DELETE", path, status=204)
    for include, names in (("false", ["main"]), ("true", ["main", "short"])):
        listed = await send_request(
            platform, "GET", f"{project_path(made)}/branches?include_deleted={include}&sort_by=name&sort_order=asc"
        )
        assert [each["name"] for each in listed["branches"]] == names
    [recovery] = [each["recovery"] for each in listed["branches"] if "recovery" in each]
    assert recovery["deletion_method"] == "user"
    assert recovery["recoverable_until"] == recovery["deleted_at"], "its data is gone"
    await create_branch(platform, made, name="short", endpoint=False)


async def test_a_branch_that_expires_is_deleted_on_time(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await platform.create_ready_project()
    volumes = (await platform.engine.observe()).volumes
    moment = clock.now() + timedelta(hours=1)
    branch = await create_branch(platform, made, expires_at=moment.isoformat())
    assert abs(branch["branch"]["ttl_interval_seconds"] - 3600) <= 1
    await platform.run_tasks()
    await platform.run_operations()
    assert await query(platform, branch, "select 1") == 1
    monkeypatch.setattr(clock, "now", lambda: moment + timedelta(seconds=1))
    await platform.run_tasks()
    await platform.run_operations()
    await send_request(platform, "GET", f"{project_path(made)}/branches/{branch['branch']['id']}", status=404)
    monkeypatch.setattr(clock, "now", lambda: moment + timedelta(days=1, seconds=1))
    await platform.run_tasks()
    await platform.run_operations()
    assert (await platform.engine.observe()).volumes == volumes


async def test_a_branch_that_cannot_be_made_is_as_if_it_never_was(platform: Platform) -> None:
    made = await platform.create_ready_project()
    before = await platform.engine.observe()
    await suspend_compute(platform, made)
    [data] = (platform.settings.home / "volumes").glob("*/data/PG_VERSION")
    record = data.parents[1] / "volume.json"
    record.rename(record.with_suffix(".away"))
    branch = await create_branch(platform, made, name="again")
    ended = [(each.stored_action, each.status) for each in await platform.list_operations(made["project"]["id"])]
    assert ended[-2:] == [("create_branch", "failed"), ("start_compute", "cancelled")]
    await send_request(platform, "GET", f"{project_path(made)}/branches/{branch['branch']['id']}", status=404)
    record.with_suffix(".away").rename(record)
    assert (await platform.engine.observe()).volumes == before.volumes
    await create_branch(platform, made, name="again")


async def test_a_project_with_branches_is_removed_whole(platform: Platform) -> None:
    made = await platform.create_ready_project()
    child = await create_branch(platform, made)
    await create_branch(platform, child)
    deleted = await create_branch(platform, made, endpoint=False)
    await send_request(platform, "DELETE", f"{project_path(made)}/branches/{deleted['branch']['id']}")
    await platform.run_operations()
    await send_request(platform, "DELETE", project_path(made))
    await platform.run_operations()
    async with platform.store.transaction() as rows:
        found = await rows.projects.get(made["project"]["id"])
        assert found is not None
        await rows.projects.save(replace(found, recoverable_until=clock.now()))
    for _ in range(3):
        await platform.run_tasks()
        await platform.run_operations()
    seen = await platform.engine.observe()
    assert not seen.volumes
    async with platform.store.read() as rows:
        assert await rows.branches.list_with_deleted(made["project"]["id"]) == []
        assert await rows.projects.get(made["project"]["id"]) is None
