"""Branches on real Postgres: their initial contents, their isolation from the parent, and their deletion."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from bough import clock
from bough.ids import BranchId, EndpointId
from journeys.platform_actions import run_tasks_and_operations
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
    created = await platform.create_ready_project()
    await platform.query(created, "create table t as select generate_series(1, 1000) as n")
    branch = await create_branch(platform, created, name="dev")
    fetched = (await send_request(platform, "GET", f"{project_path(created)}/branches/{branch['branch']['id']}"))[
        "branch"
    ]
    assert (fetched["current_state"], fetched["parent_id"]) == ("ready", created["branch"]["id"])
    assert fetched["parent_lsn"]
    assert fetched["created_at"] <= fetched["parent_timestamp"]
    assert await query(platform, branch, COUNT) == 1000
    await query(platform, branch, "delete from t where n > 10")
    await platform.query(created, "insert into t values (1001)")
    assert (await platform.query(created, COUNT), await query(platform, branch, COUNT)) == (1001, 10)


@pytest.mark.parametrize("fields", [{}, {"branch": {"role_name": "o'wn \"er", "database_name": "d.b"}}])
async def test_a_project_and_at_once_a_branch_in_it(platform: Platform, fields: dict[str, object]) -> None:
    """The branch is requested before the project is ready, and both are created."""
    created = await platform.create_project(**fields)
    branch = await begin_branch(platform, created)
    assert [each["status"] for each in branch["operations"]] == ["scheduling", "scheduling"]
    await platform.run_operations()
    role, database = created["roles"][0]["name"], created["databases"][0]["name"]
    assert await query(platform, branch, "select current_user::text", role, database) == role
    list_databases = "select string_agg(datname, ' ' order by datname) from pg_database where not datistemplate"
    assert await query(platform, branch, list_databases, role, database) == " ".join(sorted([database, "postgres"]))
    assert [each["name"] for each in branch["roles"]] == [role]
    assert branch["roles"][0]["password"] == created["roles"][0]["password"]


@pytest.mark.parametrize("state", ["running", "sleeping", "killed", "without an endpoint"])
async def test_of_a_parent_in_any_state(platform: Platform, state: str) -> None:
    created = await platform.create_ready_project()
    await platform.query(created, "create table t as select generate_series(1, 100) as n")
    if state == "sleeping":
        await suspend_compute(platform, created)
    elif state == "killed":
        await kill_compute(platform, created)
    elif state == "without an endpoint":
        await send_request(platform, "DELETE", f"{project_path(created)}/endpoints/{created['endpoints'][0]['id']}")
        await platform.run_operations()
    branch = await create_branch(platform, created)
    assert await query(platform, branch, COUNT) == 100


async def test_a_deep_chain(platform: Platform) -> None:
    branch = await platform.create_ready_project()
    await platform.query(branch, "create table t (n int)")
    for depth in range(1, 11):
        await query(platform, branch, f"insert into t values ({depth})")
        branch = await create_branch(platform, branch, name=f"depth {depth}")
    assert await query(platform, branch, "select array_agg(n order by n) from t") == list(range(1, 11))
    listed = (await send_request(platform, "GET", f"{project_path(branch)}/branches"))["branches"]
    parents = {each["id"]: each.get("parent_id") for each in listed}
    branch_id, depth = branch["branch"]["id"], 0
    while branch_id := parents[branch_id]:
        depth += 1
    assert depth == 10


async def test_a_wide_fan(platform: Platform, is_long_run: bool) -> None:
    created = await platform.create_ready_project()
    await platform.query(created, "create table t as select generate_series(1, 100) as n")
    width = 100 if is_long_run else 12
    branches = []
    for number in range(width):
        branches.append(await begin_branch(platform, created, endpoint=False, name=f"leaf {number}"))
        await asyncio.sleep(1 / 30)  # stay below the rate limit of the key
    async with platform.background_runner():  # several operations at the same time
        await platform.run_operations()
    listed = (await send_request(platform, "GET", f"{project_path(created)}/branches"))["branches"]
    assert {each["current_state"] for each in listed} == {"ready"}
    assert (await send_request(platform, "GET", f"{project_path(created)}/branches/count"))["count"] == width + 1
    for branch in (branches[0], branches[-1]):
        body = {"endpoint": {"branch_id": branch["branch"]["id"], "type": "read_write"}}
        endpoint = await send_request(platform, "POST", f"{project_path(created)}/endpoints", status=201, body=body)
        await platform.run_operations()
        assert await query(platform, {"endpoints": [endpoint["endpoint"]]}, COUNT) == 100


async def test_a_child_of_a_protected_branch_has_other_passwords(platform: Platform) -> None:
    """This includes a role that was just created with SQL, which the store does not know yet."""
    created = await platform.create_ready_project()
    await send_request(
        platform,
        "PATCH",
        f"{project_path(created)}/branches/{created['branch']['id']}",
        body={"branch": {"protected": True}},
    )
    await platform.query(created, "create role app login password 'known to many'")
    branch = await create_branch(platform, created)
    parent_contents = await platform.engine.read_compute_contents(EndpointId(created["endpoints"][0]["id"]))
    child_contents = await platform.engine.read_compute_contents(EndpointId(branch["endpoints"][0]["id"]))
    assert parent_contents is not None and child_contents is not None
    parent_verifiers = {role.name: role.verifier for role in parent_contents.roles}
    child_verifiers = {role.name: role.verifier for role in child_contents.roles}
    assert parent_verifiers.keys() == child_verifiers.keys() == {"app", "neondb_owner"}
    assert child_verifiers["app"] is None
    assert parent_verifiers["neondb_owner"] != child_verifiers["neondb_owner"]
    async with platform.store.read() as rows:
        known_roles = {role.name: role for role in await rows.roles.list_in_branch(BranchId(branch["branch"]["id"]))}
    assert {name: role.verifier for name, role in known_roles.items()} == child_verifiers
    assert not any(role.is_pending for role in known_roles.values())
    assert branch["roles"][0]["password"] != created["roles"][0]["password"]
    revealed = await send_request(
        platform, "GET", f"{project_path(created)}/branches/{branch['branch']['id']}/roles/neondb_owner/reveal_password"
    )
    assert revealed["password"] == branch["roles"][0]["password"]


async def test_what_sql_made_in_the_parent_is_known_of_the_child_at_once(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await platform.query(created, "create role app login password 'x'")
    await platform.query(created, "grant app to neondb_owner")
    await platform.query(created, "create database made_with_sql owner app")
    branch = await create_branch(platform, created, endpoint=False)
    path = f"{project_path(created)}/branches/{branch['branch']['id']}"
    assert [each["name"] for each in (await send_request(platform, "GET", f"{path}/roles"))["roles"]] == [
        "app",
        "neondb_owner",
    ]
    listed = (await send_request(platform, "GET", f"{path}/databases"))["databases"]
    assert {each["name"]: each["owner_name"] for each in listed} == {"neondb": "neondb_owner", "made_with_sql": "app"}


async def test_a_deleted_branch_leaves_nothing_but_its_name_in_a_list(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = await platform.create_ready_project()
    before = await platform.engine.observe()
    branch = await create_branch(platform, created, name="short")
    path = f"{project_path(created)}/branches/{branch['branch']['id']}"
    deleted_response = await send_request(platform, "DELETE", path)
    assert [each["action"] for each in deleted_response["operations"]] == ["suspend_compute"]
    await platform.run_operations()
    end_of_recovery = clock.now() + timedelta(days=1)
    with monkeypatch.context() as patch:
        patch.setattr(clock, "now", lambda: end_of_recovery)
        await platform.run_tasks()
    await platform.run_operations()
    after = await platform.engine.observe()
    assert after.volumes == before.volumes
    await send_request(platform, "GET", path, status=404)
    await send_request(platform, "DELETE", path, status=204)
    for include, names in (("false", ["main"]), ("true", ["main", "short"])):
        listed = await send_request(
            platform, "GET", f"{project_path(created)}/branches?include_deleted={include}&sort_by=name&sort_order=asc"
        )
        assert [each["name"] for each in listed["branches"]] == names
    [recovery] = [each["recovery"] for each in listed["branches"] if "recovery" in each]
    assert recovery["deletion_method"] == "user"
    assert recovery["recoverable_until"] == recovery["deleted_at"], "the data was removed"
    await create_branch(platform, created, name="short", endpoint=False)


async def test_a_branch_that_expires_is_deleted_on_time(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    created = await platform.create_ready_project()
    volumes = (await platform.engine.observe()).volumes
    expiry = clock.now() + timedelta(hours=1)
    branch = await create_branch(platform, created, expires_at=expiry.isoformat())
    assert abs(branch["branch"]["ttl_interval_seconds"] - 3600) <= 1
    await run_tasks_and_operations(platform)
    assert await query(platform, branch, "select 1") == 1
    monkeypatch.setattr(clock, "now", lambda: expiry + timedelta(seconds=1))
    await run_tasks_and_operations(platform)
    await send_request(platform, "GET", f"{project_path(created)}/branches/{branch['branch']['id']}", status=404)
    monkeypatch.setattr(clock, "now", lambda: expiry + timedelta(days=1, seconds=1))
    await run_tasks_and_operations(platform)
    assert (await platform.engine.observe()).volumes == volumes


async def test_a_branch_that_cannot_be_made_is_as_if_it_never_was(platform: Platform) -> None:
    created = await platform.create_ready_project()
    before = await platform.engine.observe()
    await suspend_compute(platform, created)
    [version_file] = (platform.settings.home / "volumes").glob("*/data/PG_VERSION")
    record = version_file.parents[1] / "volume.json"
    record.rename(record.with_suffix(".away"))
    branch = await create_branch(platform, created, name="again")
    outcomes = [(each.stored_action, each.status) for each in await platform.list_operations(created["project"]["id"])]
    assert outcomes[-2:] == [("create_branch", "failed"), ("start_compute", "cancelled")]
    await send_request(platform, "GET", f"{project_path(created)}/branches/{branch['branch']['id']}", status=404)
    record.with_suffix(".away").rename(record)
    assert (await platform.engine.observe()).volumes == before.volumes
    await create_branch(platform, created, name="again")


async def test_a_project_with_branches_is_removed_whole(platform: Platform) -> None:
    created = await platform.create_ready_project()
    child = await create_branch(platform, created)
    await create_branch(platform, child)
    deleted = await create_branch(platform, created, endpoint=False)
    await send_request(platform, "DELETE", f"{project_path(created)}/branches/{deleted['branch']['id']}")
    await platform.run_operations()
    await send_request(platform, "DELETE", project_path(created))
    await platform.run_operations()
    async with platform.store.transaction() as rows:
        project = await rows.projects.get(created["project"]["id"])
        assert project is not None
        await rows.projects.save(replace(project, recoverable_until=clock.now()))
    for _ in range(3):
        await run_tasks_and_operations(platform)
    observed = await platform.engine.observe()
    assert not observed.volumes
    async with platform.store.read() as rows:
        assert await rows.branches.list_with_deleted(created["project"]["id"]) == []
        assert await rows.projects.get(created["project"]["id"]) is None
