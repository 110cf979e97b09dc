"""Read replicas as users have them: made by the API, kept by the platform, served at hosts of their own."""

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
from journeys.pooled.connections import with_address
from journeys.served_project import ServedProject, fetch_value
from support.branches import Json, project_path, send_request, suspend_compute
from support.engine_home import kill_process
from support.platform import Platform
from support.program import wait_until
from support.replicas import wait_until_equal

COUNT = "select count(*) from t"


async def project_with_rows(platform: Platform) -> Json:
    made = await platform.create_ready_project()
    await platform.query(made, "create table t as select 1 as n")
    return made


async def add_replica(platform: Platform, made: Json, **fields: Any) -> str:
    asked = {"endpoint": {"branch_id": made["branch"]["id"], "type": "read_only", **fields}}
    answer = await send_request(platform, "POST", f"{project_path(made)}/endpoints", status=201, body=asked)
    await platform.run_operations()
    return str(answer["endpoint"]["id"])


async def read(platform: Platform, endpoint: str, sql: str = COUNT) -> Any:
    async with platform.connect(endpoint, "neondb_owner", "neondb") as client:
        return await client.fetchval(sql)


async def shows(platform: Platform, endpoint: str, count: int) -> None:
    await wait_until_equal(lambda: read(platform, endpoint), count)


async def state(platform: Platform, made: Json, endpoint: str) -> str:
    shown = await send_request(platform, "GET", f"{project_path(made)}/endpoints/{endpoint}")
    return str(shown["endpoint"]["current_state"])


async def slots(platform: Platform, made: Json) -> int:
    return int(await platform.query(made, "select count(*) from pg_replication_slots"))


async def asked_of(platform: Platform, made: Json, endpoint: str) -> list[OperationKind]:
    """The work that was done on an endpoint, in order."""
    work = await platform.list_operations(made["project"]["id"])
    return [each.kind for each in work if each.endpoint_id == endpoint]


async def forget_wal(platform: Platform, made: Json, endpoint: str) -> None:
    """The primary loses the way of its replica to it, what it kept for it, and then the WAL."""
    primary = made["endpoints"][0]["id"]
    shutil.rmtree(platform.settings.sockets / f"{primary}.side")
    async with platform.connect(primary, "bough_admin", "postgres") as ours:
        await ours.execute("select pg_terminate_backend(pid) from pg_stat_replication")
        await wait_until_equal(lambda: ours.fetchval("select count(*) from pg_stat_replication"), 0)
        await ours.execute("select pg_drop_replication_slot(slot_name) from pg_replication_slots")
        for _ in range(4):
            await ours.execute("create table if not exists public.x (n int)")
            await ours.execute("insert into public.x values (1)")
            await ours.execute("select pg_switch_wal()")
            await ours.execute("checkpoint")
    assert await platform.engine.read_replica_state(EndpointId(endpoint)) is ReplicaState.LOST


async def test_from_its_making_to_its_end(platform: Platform) -> None:
    made = await project_with_rows(platform)
    replica = await add_replica(platform, made)
    assert await state(platform, made, replica) == "active"
    assert await read(platform, replica) == 1
    await platform.query(made, "insert into t values (2)")
    await shows(platform, replica, 2)
    with pytest.raises(Exception, match="read-only transaction") as refusal:
        await read(platform, replica, "insert into t values (3)")
    assert getattr(refusal.value, "sqlstate", None) == "25006"

    volumes = (await platform.engine.observe()).volumes
    await send_request(platform, "DELETE", f"{project_path(made)}/endpoints/{replica}")
    await platform.run_operations()
    assert len((await platform.engine.observe()).volumes) == len(volumes) - 1
    assert await slots(platform, made) == 0
    assert await platform.query(made, COUNT) == 2


async def test_a_branch_begins_with_both(platform: Platform) -> None:
    made = await project_with_rows(platform)
    kinds = [{"type": "read_only"}, {"type": "read_write"}, {"type": "read_only"}]
    asked = {"branch": {"parent_id": made["branch"]["id"]}, "endpoints": kinds}
    branch = await send_request(platform, "POST", f"{project_path(made)}/branches", status=201, body=asked)
    await platform.run_operations()
    first, writer, last = (each["id"] for each in branch["endpoints"])
    async with platform.connect(writer, "neondb_owner", "neondb") as client:
        await client.execute("insert into t values (2)")
    for replica in (first, last):
        await shows(platform, replica, 2)
    assert await platform.query(made, COUNT) == 1
    await send_request(platform, "DELETE", f"{project_path(made)}/branches/{branch['branch']['id']}")
    await platform.run_operations()
    assert (await platform.engine.observe()).running_endpoints == {made["endpoints"][0]["id"]}
    left = (await platform.engine.observe()).volumes  # the copies of replicas go; its own stays to be recovered
    assert len(left) == 2


async def test_both_sleep_and_the_replica_wakes_alone(platform: Platform) -> None:
    made = await project_with_rows(platform)
    replica = await add_replica(platform, made)
    await send_request(platform, "POST", f"{project_path(made)}/endpoints/{replica}/suspend")
    await platform.run_operations()
    await platform.query(made, "insert into t values (2)")
    await suspend_compute(platform, made)
    async with platform.background_runner():
        await platform.inner.gateway_api.wakes.wake(EndpointId(replica))
    await shows(platform, replica, 2)
    assert await state(platform, made, made["endpoints"][0]["id"]) == "idle"


async def test_one_that_cannot_follow_any_more_gets_another_copy(platform: Platform) -> None:
    made = await project_with_rows(platform)
    replica = await add_replica(platform, made)
    await platform.query(made, "insert into t values (2)")
    await forget_wal(platform, made, replica)
    await platform.run_tasks()
    await platform.run_operations()
    await shows(platform, replica, 2)
    await platform.query(made, "insert into t values (3)")
    await shows(platform, replica, 3)
    assert await state(platform, made, replica) == "active"
    assert await asked_of(platform, made, replica) == ["start_compute", "suspend_compute", "start_compute"]
    await platform.run_tasks()
    await platform.run_operations()
    assert len(await asked_of(platform, made, replica)) == 3


async def test_one_that_only_waits_is_helped_after_a_while_and_not_restarted(platform: Platform) -> None:
    made = await project_with_rows(platform)
    replica = await add_replica(platform, made)
    primary = made["endpoints"][0]["id"]
    shutil.rmtree(platform.settings.sockets / f"{primary}.side")
    async with platform.connect(primary, "bough_admin", "postgres") as ours:
        await ours.execute("select pg_terminate_backend(pid) from pg_stat_replication")
    await wait_until_equal(lambda: platform.engine.read_replica_state(EndpointId(replica)), ReplicaState.WAITING)
    async with platform.connect(replica, "neondb_owner", "neondb") as reader:
        for _ in range(2):
            await platform.run_tasks()
        assert len(await asked_of(platform, made, replica)) == 1
        await platform.run_tasks()
        await platform.run_operations()
        await platform.query(made, "insert into t values (2)")
        await wait_until_equal(lambda: reader.fetchval(COUNT), 2)


async def test_without_a_writer_it_stands_still_but_hears_of_changes(platform: Platform) -> None:
    made = await project_with_rows(platform)
    replica, writer = await add_replica(platform, made), made["endpoints"][0]["id"]
    await send_request(platform, "DELETE", f"{project_path(made)}/endpoints/{writer}")
    await platform.run_operations()
    assert await read(platform, replica) == 1
    assert await read(platform, replica, "show primary_conninfo") == ""
    asked = {"role": {"name": "late"}}
    await send_request(
        platform, "POST", f"{project_path(made)}/branches/{made['branch']['id']}/roles", status=201, body=asked
    )
    await platform.run_operations()
    await platform.run_tasks()
    await platform.run_operations()
    known = "select count(*) from pg_roles where rolname = 'late'"
    await wait_until_equal(lambda: read(platform, replica, known), 1)

    asked = {"endpoint": {"branch_id": made["branch"]["id"], "type": "read_write"}}
    another = await send_request(platform, "POST", f"{project_path(made)}/endpoints", status=201, body=asked)
    await platform.run_operations()
    async with platform.connect(another["endpoint"]["id"], "neondb_owner", "neondb") as client:
        await client.execute("insert into t values (2)")

    async def kept() -> Any:
        await platform.run_tasks()
        await platform.run_operations()
        return await read(platform, replica)

    await wait_until_equal(kept, 2)


async def test_its_writer_grows_and_shrinks(platform: Platform) -> None:
    made = await project_with_rows(platform)
    replica, writer = await add_replica(platform, made), made["endpoints"][0]["id"]
    before = int(await read(platform, replica, "show max_connections"))
    for cu, rows in ((2, 2), (0.25, 3)):
        limits = {"autoscaling_limit_min_cu": 0.25, "autoscaling_limit_max_cu": cu}
        await send_request(platform, "PATCH", f"{project_path(made)}/endpoints/{writer}", body={"endpoint": limits})
        await platform.run_operations()
        await platform.query(made, f"insert into t values ({rows})")
        await shows(platform, replica, rows)
        if cu == 2:
            assert int(await read(platform, replica, "show max_connections")) > before
    assert "apply_config" in await asked_of(platform, made, replica)


async def test_it_crashes_and_comes_back(platform: Platform) -> None:
    made = await project_with_rows(platform)
    replica = await add_replica(platform, made)
    async with platform.store.read() as rows:
        endpoint = await rows.endpoints.get(EndpointId(replica))
    assert endpoint is not None and endpoint.volume_id is not None
    pid_file = platform.settings.home / "volumes" / endpoint.volume_id / "data" / "postmaster.pid"
    await kill_process(int(pid_file.read_text().split()[0]))
    await platform.run_tasks()
    await platform.run_operations()
    await platform.query(made, "insert into t values (2)")
    await shows(platform, replica, 2)


async def test_when_the_platform_rests_it_rests_too(platform: Platform) -> None:
    made = await project_with_rows(platform)
    replica = await add_replica(platform, made)
    await stop_all_computes(platform.store, platform.engine)
    assert await state(platform, made, replica) == "idle"
    assert (await platform.engine.observe()).running_endpoints == frozenset()
    async with platform.background_runner():
        await platform.inner.gateway_api.wakes.wake(EndpointId(replica))
    assert await read(platform, replica) == 1


async def test_its_lag_is_among_the_figures(platform: Platform) -> None:
    made = await project_with_rows(platform)
    replica = await add_replica(platform, made)
    await platform.query(made, "insert into t values (2)")
    await shows(platform, replica, 2)
    await platform.run_tasks()
    figures = (await platform.client.get("/metrics")).text
    assert f'bough_replica_lag_bytes{{endpoint_id="{replica}"}} 0.0' in figures
    assert f'bough_replica_lag_seconds{{endpoint_id="{replica}"}} 0.0' in figures
    assert f'bough_replica_lag_bytes{{endpoint_id="{made["endpoints"][0]["id"]}"}}' not in figures


async def test_it_falls_asleep_and_does_not_keep_its_writer_from_it(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await project_with_rows(platform)
    replica = await add_replica(platform, made)
    await shows(platform, replica, 1)
    now = clock.now
    monkeypatch.setattr(clock, "now", lambda: now() + timedelta(seconds=400))
    await platform.run_tasks()
    await platform.run_operations()
    for endpoint in (replica, made["endpoints"][0]["id"]):
        assert await state(platform, made, endpoint) == "idle"


async def test_it_is_served_at_its_hosts(served_project: ServedProject) -> None:
    """Direct and pooled, with the passwords of its branch; and it wakes when somebody comes."""
    writer = await served_project.connect()
    await writer.execute("create table t as select 1 as n")
    project = f"/projects/{served_project.creation_response['project']['id']}"
    asked = {"endpoint": {"branch_id": served_project.creation_response["branch"]["id"], "type": "read_only"}}
    replica = served_project.api.post(f"{project}/endpoints", json=asked).raise_for_status().json()["endpoint"]["id"]
    path = f"{project}/endpoints/{replica}"

    def is_now(wanted: str) -> bool:
        return bool(served_project.api.get(path).json()["endpoint"]["current_state"] == wanted)

    wait_until(lambda: is_now("active"))
    given = served_project.creation_response["connection_uris"][0]["connection_parameters"]
    for pooled in ("false", "true"):
        named = {"database_name": given["database"], "role_name": given["role"], "endpoint_id": replica}
        answer = served_project.api.get(f"{project}/connection_uri", params={**named, "pooled": pooled})
        uri = with_address(str(answer.raise_for_status().json()["uri"]))
        assert replica in uri
        client = await served_project.connect_to(uri)
        served_project.sessions.append(client)
        assert await fetch_value(client, COUNT) == 1
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await client.execute("insert into t values (2)")
        assert await fetch_value(client, "select pg_is_in_recovery()") is True
    served_project.api.post(f"{path}/suspend").raise_for_status()
    wait_until(lambda: is_now("idle"))
    again = await served_project.connect_to(uri)
    served_project.sessions.append(again)
    assert await fetch_value(again, COUNT) == 1
    assert is_now("active")
