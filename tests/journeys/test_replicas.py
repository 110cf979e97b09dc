"""Read replicas: created by the API, maintained by the platform, and served at their own hosts."""

import re
import shutil
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from bough import clock
from bough.control.platform.shutdown import stop_all_computes
from bough.domain.operation import OperationKind
from bough.engine.port import ReplicaState
from bough.ids import EndpointId
from bough.tasks.measure_branches import MeasureBranches
from journeys.platform_actions import add_replica, run_tasks_and_operations, wake
from journeys.pooled.connections import with_address
from journeys.served_project import ServedProject, fetch_value
from support.branches import Json, project_path, send_request, suspend_compute
from support.engine_home import kill_process
from support.platform import Platform
from support.program import wait_until
from support.replicas import wait_until_equal

COUNT = "select count(*) from t"


async def create_project_with_rows(platform: Platform) -> Json:
    created = await platform.create_ready_project()
    await platform.query(created, "create table t as select 1 as n")
    return created


async def read_value(platform: Platform, endpoint: str, sql: str = COUNT) -> Any:
    async with platform.connect(endpoint, "neondb_owner", "neondb") as client:
        return await client.fetchval(sql)


async def wait_for_count(platform: Platform, endpoint: str, count: int) -> None:
    await wait_until_equal(lambda: read_value(platform, endpoint), count)


async def get_state(platform: Platform, created: Json, endpoint: str) -> str:
    response = await send_request(platform, "GET", f"{project_path(created)}/endpoints/{endpoint}")
    return str(response["endpoint"]["current_state"])


async def count_slots(platform: Platform, created: Json) -> int:
    return int(await platform.query(created, "select count(*) from pg_replication_slots"))


async def list_operation_kinds(platform: Platform, created: Json, endpoint: str) -> list[OperationKind]:
    """Lists the operations on an endpoint, oldest first."""
    operations = await platform.list_operations(created["project"]["id"])
    return [each.kind for each in operations if each.endpoint_id == endpoint]


async def lose_wal(platform: Platform, created: Json, endpoint: str) -> None:
    """Disconnects the replica from its primary, drops its slot and recycles the WAL that it needs."""
    primary = created["endpoints"][0]["id"]
    shutil.rmtree(platform.settings.sockets / f"{primary}.side")
    async with platform.connect(primary, "bough_admin", "postgres") as admin:
        await admin.execute("select pg_terminate_backend(pid) from pg_stat_replication")
        await wait_until_equal(lambda: admin.fetchval("select count(*) from pg_stat_replication"), 0)
        await admin.execute("select pg_drop_replication_slot(slot_name) from pg_replication_slots")
        for _ in range(4):
            await admin.execute("create table if not exists public.x (n int)")
            await admin.execute("insert into public.x values (1)")
            await admin.execute("select pg_switch_wal()")

        async def recycle_wal() -> ReplicaState | None:
            await admin.execute("checkpoint")
            return await platform.engine.read_replica_state(EndpointId(endpoint))

        await wait_until_equal(recycle_wal, ReplicaState.LOST)  # a checkpoint removes only WAL that is archived


async def test_from_its_making_to_its_end(platform: Platform) -> None:
    created = await create_project_with_rows(platform)
    replica = await add_replica(platform, created)
    assert await get_state(platform, created, replica) == "active"
    assert await read_value(platform, replica) == 1
    await platform.query(created, "insert into t values (2)")
    await wait_for_count(platform, replica, 2)
    with pytest.raises(Exception, match="read-only transaction") as refusal:
        await read_value(platform, replica, "insert into t values (3)")
    assert getattr(refusal.value, "sqlstate", None) == "25006"

    volumes = (await platform.engine.observe()).volumes
    await send_request(platform, "DELETE", f"{project_path(created)}/endpoints/{replica}")
    await platform.run_operations()
    assert len((await platform.engine.observe()).volumes) == len(volumes) - 1
    assert await count_slots(platform, created) == 0
    assert await platform.query(created, COUNT) == 2


async def test_a_branch_begins_with_both(platform: Platform) -> None:
    created = await create_project_with_rows(platform)
    kinds = [{"type": "read_only"}, {"type": "read_write"}, {"type": "read_only"}]
    body = {"branch": {"parent_id": created["branch"]["id"]}, "endpoints": kinds}
    branch = await send_request(platform, "POST", f"{project_path(created)}/branches", status=201, body=body)
    await platform.run_operations()
    first, writer, last = (each["id"] for each in branch["endpoints"])
    async with platform.connect(writer, "neondb_owner", "neondb") as client:
        await client.execute("insert into t values (2)")
    for replica in (first, last):
        await wait_for_count(platform, replica, 2)
    assert await platform.query(created, COUNT) == 1
    await send_request(platform, "DELETE", f"{project_path(created)}/branches/{branch['branch']['id']}")
    await platform.run_operations()
    assert (await platform.engine.observe()).running_endpoints == {created["endpoints"][0]["id"]}
    # The volumes of the replicas are removed; that of the branch is kept for recovery.
    remaining = (await platform.engine.observe()).volumes
    assert len(remaining) == 2


async def test_both_sleep_and_the_replica_wakes_alone(platform: Platform) -> None:
    created = await create_project_with_rows(platform)
    replica = await add_replica(platform, created)
    await send_request(platform, "POST", f"{project_path(created)}/endpoints/{replica}/suspend")
    await platform.run_operations()
    await platform.query(created, "insert into t values (2)")
    await suspend_compute(platform, created)
    await wake(platform, replica)
    await wait_for_count(platform, replica, 2)
    assert await get_state(platform, created, created["endpoints"][0]["id"]) == "idle"


async def test_one_that_cannot_follow_any_more_gets_another_copy(platform: Platform) -> None:
    created = await create_project_with_rows(platform)
    replica = await add_replica(platform, created)
    await platform.query(created, "insert into t values (2)")
    await lose_wal(platform, created, replica)
    await run_tasks_and_operations(platform)
    await wait_for_count(platform, replica, 2)
    await platform.query(created, "insert into t values (3)")
    await wait_for_count(platform, replica, 3)
    assert await get_state(platform, created, replica) == "active"
    assert await list_operation_kinds(platform, created, replica) == [
        "start_compute",
        "suspend_compute",
        "start_compute",
    ]
    await run_tasks_and_operations(platform)
    assert len(await list_operation_kinds(platform, created, replica)) == 3


async def test_one_that_only_waits_is_helped_after_a_while_and_not_restarted(platform: Platform) -> None:
    created = await create_project_with_rows(platform)
    replica = await add_replica(platform, created)
    primary = created["endpoints"][0]["id"]
    shutil.rmtree(platform.settings.sockets / f"{primary}.side")
    async with platform.connect(primary, "bough_admin", "postgres") as admin:
        await admin.execute("select pg_terminate_backend(pid) from pg_stat_replication")
    await wait_until_equal(lambda: platform.engine.read_replica_state(EndpointId(replica)), ReplicaState.WAITING)
    async with platform.connect(replica, "neondb_owner", "neondb") as reader:
        for _ in range(2):
            await platform.run_tasks()
        assert len(await list_operation_kinds(platform, created, replica)) == 1
        await platform.run_tasks()
        await platform.run_operations()
        await platform.query(created, "insert into t values (2)")
        await wait_until_equal(lambda: reader.fetchval(COUNT), 2)


async def test_without_a_writer_it_stands_still_but_hears_of_changes(platform: Platform) -> None:
    created = await create_project_with_rows(platform)
    replica, writer = await add_replica(platform, created), created["endpoints"][0]["id"]
    await send_request(platform, "DELETE", f"{project_path(created)}/endpoints/{writer}")
    await platform.run_operations()
    assert await read_value(platform, replica) == 1
    assert await read_value(platform, replica, "show primary_conninfo") == ""
    body = {"role": {"name": "late"}}
    await send_request(
        platform, "POST", f"{project_path(created)}/branches/{created['branch']['id']}/roles", status=201, body=body
    )
    await platform.run_operations()
    await run_tasks_and_operations(platform)
    role_count_query = "select count(*) from pg_roles where rolname = 'late'"
    await wait_until_equal(lambda: read_value(platform, replica, role_count_query), 1)

    body = {"endpoint": {"branch_id": created["branch"]["id"], "type": "read_write"}}
    writer_response = await send_request(platform, "POST", f"{project_path(created)}/endpoints", status=201, body=body)
    await platform.run_operations()
    async with platform.connect(writer_response["endpoint"]["id"], "neondb_owner", "neondb") as client:
        await client.execute("insert into t values (2)")

    async def read_after_tasks() -> Any:
        await run_tasks_and_operations(platform)
        return await read_value(platform, replica)

    await wait_until_equal(read_after_tasks, 2)


async def test_its_writer_grows_and_shrinks(platform: Platform) -> None:
    created = await create_project_with_rows(platform)
    replica, writer = await add_replica(platform, created), created["endpoints"][0]["id"]
    before = int(await read_value(platform, replica, "show max_connections"))
    for cu, rows in ((2, 2), (0.25, 3)):
        limits = {"autoscaling_limit_min_cu": 0.25, "autoscaling_limit_max_cu": cu}
        await send_request(platform, "PATCH", f"{project_path(created)}/endpoints/{writer}", body={"endpoint": limits})
        await platform.run_operations()
        await platform.query(created, f"insert into t values ({rows})")
        await wait_for_count(platform, replica, rows)
        if cu == 2:
            assert int(await read_value(platform, replica, "show max_connections")) > before
    assert "apply_config" in await list_operation_kinds(platform, created, replica)


async def test_it_crashes_and_comes_back(platform: Platform) -> None:
    created = await create_project_with_rows(platform)
    replica = await add_replica(platform, created)
    async with platform.store.read() as store_rows:
        endpoint = await store_rows.endpoints.get(EndpointId(replica))
    assert endpoint is not None and endpoint.volume_id is not None
    pid_file = platform.settings.home / "volumes" / endpoint.volume_id / "data" / "postmaster.pid"
    await kill_process(int(pid_file.read_text().split()[0]))
    await run_tasks_and_operations(platform)
    await platform.query(created, "insert into t values (2)")
    await wait_for_count(platform, replica, 2)


async def test_when_the_platform_rests_it_rests_too(platform: Platform) -> None:
    created = await create_project_with_rows(platform)
    replica = await add_replica(platform, created)
    await stop_all_computes(platform.store, platform.engine)
    assert await get_state(platform, created, replica) == "idle"
    assert (await platform.engine.observe()).running_endpoints == frozenset()
    await wake(platform, replica)
    assert await read_value(platform, replica) == 1


async def test_its_lag_is_among_the_figures(platform: Platform) -> None:
    created = await create_project_with_rows(platform)
    replica = await add_replica(platform, created)
    await platform.query(created, "insert into t values (2)")
    await wait_for_count(platform, replica, 2)

    async def read_lag() -> list[str]:
        """Sessions of tasks may write WAL, too, which the replica has a moment later."""
        measure._measured.clear()
        await measure.run()
        metrics = (await platform.client.get("/metrics")).text
        assert f'bough_replica_lag_bytes{{endpoint_id="{created["endpoints"][0]["id"]}"}}' not in metrics
        return re.findall(rf'bough_replica_lag_\w+{{endpoint_id="{replica}"}} (\S+)', metrics)

    await platform.run_tasks()
    tasks = [task for loop in platform.inner.loops for task in loop.tasks]
    measure = next(task for task in tasks if isinstance(task, MeasureBranches))
    await wait_until_equal(read_lag, ["0.0", "0.0"])


async def test_it_falls_asleep_and_does_not_keep_its_writer_from_it(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = await create_project_with_rows(platform)
    replica = await add_replica(platform, created)
    await wait_for_count(platform, replica, 1)
    now = clock.now
    monkeypatch.setattr(clock, "now", lambda: now() + timedelta(seconds=400))
    await run_tasks_and_operations(platform)
    for endpoint in (replica, created["endpoints"][0]["id"]):
        assert await get_state(platform, created, endpoint) == "idle"


async def test_it_is_served_at_its_hosts(served_project: ServedProject) -> None:
    """Serves direct and pooled connections with the passwords of its branch, and wakes when a client connects."""
    writer = await served_project.connect()
    await writer.execute("create table t as select 1 as n")
    project = served_project.project_path
    body = {"endpoint": {"branch_id": served_project.creation_response["branch"]["id"], "type": "read_only"}}
    replica = served_project.api.post(f"{project}/endpoints", json=body).raise_for_status().json()["endpoint"]["id"]
    path = f"{project}/endpoints/{replica}"

    def is_in_state(expected: str) -> bool:
        return bool(served_project.api.get(path).json()["endpoint"]["current_state"] == expected)

    wait_until(lambda: is_in_state("active"))
    parameters = served_project.creation_response["connection_uris"][0]["connection_parameters"]
    for pooled in ("false", "true"):
        query_parameters = {
            "database_name": parameters["database"],
            "role_name": parameters["role"],
            "endpoint_id": replica,
        }
        response = served_project.api.get(f"{project}/connection_uri", params={**query_parameters, "pooled": pooled})
        uri = with_address(str(response.raise_for_status().json()["uri"]))
        assert replica in uri
        client = await served_project.connect_to(uri)
        served_project.sessions.append(client)
        assert await fetch_value(client, COUNT) == 1
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await client.execute("insert into t values (2)")
        assert await fetch_value(client, "select pg_is_in_recovery()") is True
    served_project.api.post(f"{path}/suspend").raise_for_status()
    wait_until(lambda: is_in_state("idle"))
    woken_session = await served_project.connect_to(uri)
    served_project.sessions.append(woken_session)
    assert await fetch_value(woken_session, COUNT) == 1
    assert is_in_state("active")
