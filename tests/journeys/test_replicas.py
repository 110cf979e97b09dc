"""Read replicas as users have them: made by the API, kept by the platform, served at hosts of their own."""

import shutil
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from bough import clock
from bough.control.resting import rest
from bough.domain.operation import OperationAction
from bough.engine.port import Following
from bough.ids import EndpointId
from branch_world import Json, ask, path_of, suspend
from cli.program import until
from engine.followers import eventually
from engine.homes import kill
from journeys.pooled.host import reachable
from journeys.served import Served, value
from world import Platform

COUNT = "select count(*) from t"


async def project_with_rows(platform: Platform) -> Json:
    made = await platform.ready_project()
    await platform.query(made, "create table t as select 1 as n")
    return made


async def add_replica(platform: Platform, made: Json, **fields: Any) -> str:
    asked = {"endpoint": {"branch_id": made["branch"]["id"], "type": "read_only", **fields}}
    answer = await ask(platform, "POST", f"{path_of(made)}/endpoints", status=201, body=asked)
    await platform.settle()
    return str(answer["endpoint"]["id"])


async def read(platform: Platform, endpoint: str, sql: str = COUNT) -> Any:
    async with platform.connect(endpoint, "neondb_owner", "neondb") as client:
        return await client.fetchval(sql)


async def shows(platform: Platform, endpoint: str, count: int) -> None:
    await eventually(lambda: read(platform, endpoint), count)


async def state(platform: Platform, made: Json, endpoint: str) -> str:
    shown = await ask(platform, "GET", f"{path_of(made)}/endpoints/{endpoint}")
    return str(shown["endpoint"]["current_state"])


async def slots(platform: Platform, made: Json) -> int:
    return int(await platform.query(made, "select count(*) from pg_replication_slots"))


async def asked_of(platform: Platform, made: Json, endpoint: str) -> list[OperationAction]:
    """The work that was done on an endpoint, in order."""
    work = await platform.operations(made["project"]["id"])
    return [each.action for each in work if each.endpoint_id == endpoint]


async def forget_wal(platform: Platform, made: Json, endpoint: str) -> None:
    """The primary loses the way of its replica to it, what it kept for it, and then the WAL."""
    primary = made["endpoints"][0]["id"]
    shutil.rmtree(platform.settings.sockets / f"{primary}.side")
    async with platform.connect(primary, "bough_admin", "postgres") as ours:
        await ours.execute("select pg_terminate_backend(pid) from pg_stat_replication")
        await eventually(lambda: ours.fetchval("select count(*) from pg_stat_replication"), 0)
        await ours.execute("select pg_drop_replication_slot(slot_name) from pg_replication_slots")
        for _ in range(4):
            await ours.execute("create table if not exists public.x (n int)")
            await ours.execute("insert into public.x values (1)")
            await ours.execute("select pg_switch_wal()")
            await ours.execute("checkpoint")
    assert await platform.engine.following(EndpointId(endpoint)) is Following.LOST


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
    await ask(platform, "DELETE", f"{path_of(made)}/endpoints/{replica}")
    await platform.settle()
    assert len((await platform.engine.observe()).volumes) == len(volumes) - 1
    assert await slots(platform, made) == 0
    assert await platform.query(made, COUNT) == 2


async def test_a_branch_begins_with_both(platform: Platform) -> None:
    made = await project_with_rows(platform)
    kinds = [{"type": "read_only"}, {"type": "read_write"}, {"type": "read_only"}]
    asked = {"branch": {"parent_id": made["branch"]["id"]}, "endpoints": kinds}
    branch = await ask(platform, "POST", f"{path_of(made)}/branches", status=201, body=asked)
    await platform.settle()
    first, writer, last = (each["id"] for each in branch["endpoints"])
    async with platform.connect(writer, "neondb_owner", "neondb") as client:
        await client.execute("insert into t values (2)")
    for replica in (first, last):
        await shows(platform, replica, 2)
    assert await platform.query(made, COUNT) == 1
    await ask(platform, "DELETE", f"{path_of(made)}/branches/{branch['branch']['id']}")
    await platform.settle()
    assert (await platform.engine.observe()).running == {made["endpoints"][0]["id"]}
    left = (await platform.engine.observe()).volumes  # the copies of replicas go; its own stays to be recovered
    assert len(left) == 2


async def test_both_sleep_and_the_replica_wakes_alone(platform: Platform) -> None:
    made = await project_with_rows(platform)
    replica = await add_replica(platform, made)
    await ask(platform, "POST", f"{path_of(made)}/endpoints/{replica}/suspend")
    await platform.settle()
    await platform.query(made, "insert into t values (2)")
    await suspend(platform, made)
    async with platform.working():
        await platform.inner.plane.wakes.wake(EndpointId(replica))
    await shows(platform, replica, 2)
    assert await state(platform, made, made["endpoints"][0]["id"]) == "idle"


async def test_one_that_cannot_follow_any_more_gets_another_copy(platform: Platform) -> None:
    made = await project_with_rows(platform)
    replica = await add_replica(platform, made)
    await platform.query(made, "insert into t values (2)")
    await forget_wal(platform, made, replica)
    await platform.run_tasks()
    await platform.settle()
    await shows(platform, replica, 2)
    await platform.query(made, "insert into t values (3)")
    await shows(platform, replica, 3)
    assert await state(platform, made, replica) == "active"
    assert await asked_of(platform, made, replica) == ["start_compute", "suspend_compute", "start_compute"]
    await platform.run_tasks()
    await platform.settle()
    assert len(await asked_of(platform, made, replica)) == 3


async def test_one_that_only_waits_is_helped_after_a_while_and_not_restarted(platform: Platform) -> None:
    made = await project_with_rows(platform)
    replica = await add_replica(platform, made)
    primary = made["endpoints"][0]["id"]
    shutil.rmtree(platform.settings.sockets / f"{primary}.side")
    async with platform.connect(primary, "bough_admin", "postgres") as ours:
        await ours.execute("select pg_terminate_backend(pid) from pg_stat_replication")
    await eventually(lambda: platform.engine.following(EndpointId(replica)), Following.WAITS)
    async with platform.connect(replica, "neondb_owner", "neondb") as reader:
        for _ in range(2):
            await platform.run_tasks()
        assert len(await asked_of(platform, made, replica)) == 1
        await platform.run_tasks()
        await platform.settle()
        await platform.query(made, "insert into t values (2)")
        await eventually(lambda: reader.fetchval(COUNT), 2)


async def test_without_a_writer_it_stands_still_but_hears_of_changes(platform: Platform) -> None:
    made = await project_with_rows(platform)
    replica, writer = await add_replica(platform, made), made["endpoints"][0]["id"]
    await ask(platform, "DELETE", f"{path_of(made)}/endpoints/{writer}")
    await platform.settle()
    assert await read(platform, replica) == 1
    assert await read(platform, replica, "show primary_conninfo") == ""
    asked = {"role": {"name": "late"}}
    await ask(platform, "POST", f"{path_of(made)}/branches/{made['branch']['id']}/roles", status=201, body=asked)
    await platform.settle()
    await platform.run_tasks()
    await platform.settle()
    known = "select count(*) from pg_roles where rolname = 'late'"
    await eventually(lambda: read(platform, replica, known), 1)

    asked = {"endpoint": {"branch_id": made["branch"]["id"], "type": "read_write"}}
    another = await ask(platform, "POST", f"{path_of(made)}/endpoints", status=201, body=asked)
    await platform.settle()
    async with platform.connect(another["endpoint"]["id"], "neondb_owner", "neondb") as client:
        await client.execute("insert into t values (2)")

    async def kept() -> Any:
        await platform.run_tasks()
        await platform.settle()
        return await read(platform, replica)

    await eventually(kept, 2)


async def test_its_writer_grows_and_shrinks(platform: Platform) -> None:
    made = await project_with_rows(platform)
    replica, writer = await add_replica(platform, made), made["endpoints"][0]["id"]
    before = int(await read(platform, replica, "show max_connections"))
    for cu, rows in ((2, 2), (0.25, 3)):
        limits = {"autoscaling_limit_min_cu": 0.25, "autoscaling_limit_max_cu": cu}
        await ask(platform, "PATCH", f"{path_of(made)}/endpoints/{writer}", body={"endpoint": limits})
        await platform.settle()
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
    await kill(int(pid_file.read_text().split()[0]))
    await platform.run_tasks()
    await platform.settle()
    await platform.query(made, "insert into t values (2)")
    await shows(platform, replica, 2)


async def test_when_the_platform_rests_it_rests_too(platform: Platform) -> None:
    made = await project_with_rows(platform)
    replica = await add_replica(platform, made)
    await rest(platform.store, platform.engine)
    assert await state(platform, made, replica) == "idle"
    assert (await platform.engine.observe()).running == frozenset()
    async with platform.working():
        await platform.inner.plane.wakes.wake(EndpointId(replica))
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
    await platform.settle()
    for endpoint in (replica, made["endpoints"][0]["id"]):
        assert await state(platform, made, endpoint) == "idle"


async def test_it_is_served_at_its_hosts(one: Served) -> None:
    """Direct and pooled, with the passwords of its branch; and it wakes when somebody comes."""
    writer = await one.connect()
    await writer.execute("create table t as select 1 as n")
    project = f"/projects/{one.made['project']['id']}"
    asked = {"endpoint": {"branch_id": one.made["branch"]["id"], "type": "read_only"}}
    replica = one.api.post(f"{project}/endpoints", json=asked).raise_for_status().json()["endpoint"]["id"]
    path = f"{project}/endpoints/{replica}"

    def is_now(wanted: str) -> bool:
        return bool(one.api.get(path).json()["endpoint"]["current_state"] == wanted)

    until(lambda: is_now("active"))
    given = one.made["connection_uris"][0]["connection_parameters"]
    for pooled in ("false", "true"):
        named = {"database_name": given["database"], "role_name": given["role"], "endpoint_id": replica}
        answer = one.api.get(f"{project}/connection_uri", params={**named, "pooled": pooled})
        uri = reachable(str(answer.raise_for_status().json()["uri"]))
        assert replica in uri
        client = await one.entered(uri)
        one.sessions.append(client)
        assert await value(client, COUNT) == 1
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await client.execute("insert into t values (2)")
        assert await value(client, "select pg_is_in_recovery()") is True
    one.api.post(f"{path}/suspend").raise_for_status()
    until(lambda: is_now("idle"))
    again = await one.entered(uri)
    one.sessions.append(again)
    assert await value(again, COUNT) == 1
    assert is_now("active")
