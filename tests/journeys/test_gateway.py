"""The gateway wakes suspended computes, connects clients to running ones, and reports activity and transfer."""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from journeys.served_project import RunningPlatform, ServedProject, create_project, fetch_value, gather_results
from support.program import is_alive, wait_until

REPORT_SECONDS = 3.5  # until a report has reached control


async def test_a_uri_from_the_api_works_awake_and_asleep(served_project: ServedProject) -> None:
    assert await served_project.fetch_value("select 6 * 7") == 42
    served_project.suspend()
    assert await served_project.fetch_value("select current_database()") == "neondb"
    endpoint = served_project.get_endpoint()
    assert endpoint["current_state"] == "active"
    assert endpoint["last_active"] >= endpoint["started_at"]
    assert "suspended_at" not in endpoint


async def test_a_disabled_endpoint_says_so_until_it_is_enabled(served_project: ServedProject) -> None:
    session = await served_project.connect()
    served_project.api.patch(served_project.endpoint_path, json={"endpoint": {"disabled": True}}).raise_for_status()
    wait_until(lambda: served_project.get_state() == "idle")
    with pytest.raises(psycopg.OperationalError):
        await session.execute("select 1")
    with pytest.raises(psycopg.OperationalError, match="disabled"):
        await served_project.connect()
    assert served_project.get_state() == "idle"
    served_project.api.patch(served_project.endpoint_path, json={"endpoint": {"disabled": False}}).raise_for_status()
    assert await served_project.fetch_value("select 1") == 1


async def test_a_wake_that_fails_tells_why(project_on_own_platform: ServedProject) -> None:
    project_on_own_platform.suspend()
    [volume] = list_volumes(project_on_own_platform)
    data = volume / "data"
    (data / "PG_VERSION").rename(data / "PG_VERSION.away")
    with pytest.raises(psycopg.OperationalError, match=r"57P03|compute|Postgres"):
        await project_on_own_platform.connect()
    (data / "PG_VERSION.away").rename(data / "PG_VERSION")
    assert await project_on_own_platform.fetch_value("select 1") == 1


def list_volumes(project: ServedProject) -> list[Path]:
    records = (project.bough.home / "volumes").glob("*/volume.json")
    return [file.parent for file in records if project.creation_response["project"]["id"] in file.read_text()]


async def test_strangers_wake_nothing_and_learn_nothing(served_project: ServedProject) -> None:
    served_project.suspend()
    messages = []
    for uri in (
        served_project.uri.replace("neondb_owner:", "nobody:"),
        served_project.uri.replace(":npg_", ":wrong_"),
        served_project.uri.replace(served_project.endpoint_id, "ep-never-was-a1b2c3d4"),
    ):
        with pytest.raises(psycopg.OperationalError) as refusal:
            await served_project.connect_to(uri)
        messages.append(str(refusal.value).rsplit("FATAL:", 1)[1].strip())
    assert messages[0] == 'password authentication failed for user "nobody"'
    assert messages[1:] == ['password authentication failed for user "neondb_owner"'] * 2
    assert served_project.get_state() == "idle"


async def test_roles_of_sql_follow_within_seconds(served_project: ServedProject) -> None:
    async with await served_project.connect() as session:
        await session.execute("create role app login password 'first'")
        await session.execute("grant all on database neondb to app")
    as_app = served_project.uri.replace("neondb_owner:npg_", "app:npg_")
    owner_password = psycopg.conninfo.conninfo_to_dict(served_project.uri)["password"]

    async def can_connect(password: str) -> bool:
        try:
            async with await served_project.connect_to(as_app.replace(str(owner_password), password)):
                return True
        except psycopg.OperationalError as error:
            assert "password authentication failed" in str(error) or 'role "app" does not exist' in str(error)
            return False

    async def wait_for_login(password: str, expected: bool) -> None:
        deadline = time.monotonic() + 20
        while await can_connect(password) is not expected:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.3)

    await wait_for_login("first", expected=True)
    async with await served_project.connect() as session:
        await session.execute("alter role app password 'second'")
    await wait_for_login("second", expected=True)
    assert not await can_connect("first")
    served_project.suspend()
    assert await can_connect("second")  # also after the compute was suspended
    async with await served_project.connect() as session:
        await session.execute("alter role app valid until '2020-01-01'")
    await wait_for_login("second", expected=False)
    async with await served_project.connect() as session:
        await session.execute("alter role app valid until 'infinity'")
        await session.execute("select 1")
    await wait_for_login("second", expected=True)
    async with await served_project.connect() as session:
        await session.execute("revoke all on database neondb from app; drop role app")
    await wait_for_login("second", expected=False)


async def test_many_at_once_wake_it_once(running_platform: RunningPlatform, is_long_run: bool) -> None:
    """Every client gets its row, and the compute is started once."""
    count = 500 if is_long_run else 60
    async with create_project(running_platform, cu=2) as project:
        project.suspend()
        before = _count_starts(project)
        results = await gather_results(*(project.fetch_value("select 1") for _ in range(count)))
        assert results == [1] * count
        assert _count_starts(project) == before + 1
        project.delete()


def _count_starts(project: ServedProject) -> int:
    operations = project.api.get(f"{project.project_path}/operations", params={"limit": 1000}).json()
    return sum(each["action"] == "start_compute" for each in operations["operations"])


async def test_idle_connections_stay_and_answer(own_platform: RunningPlatform, is_long_run: bool) -> None:
    count = 2000 if is_long_run else 80
    async with create_project(own_platform, cu=8 if is_long_run else 0.25) as project:
        for _ in range(count // 40):
            await asyncio.gather(*(project.connect() for _ in range(40)))
        assert [await fetch_value(session, "select 1") for session in project.sessions] == [1] * count
        wait_until(lambda: _count_connections(project) == count)
        await asyncio.gather(*(session.close() for session in project.sessions))
        wait_until(lambda: _count_connections(project) == 0)
        project.delete()


def _count_connections(project: ServedProject) -> float:
    lines = project.api.get(str(project.api.base_url).replace("/api/v2/", "/metrics")).text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("bough_gateway_connections{"))


async def test_replication_is_for_roles_that_may(served_project: ServedProject) -> None:
    change = {"project": {"settings": {"enable_logical_replication": True}}}
    served_project.api.patch(served_project.project_path, json=change)
    wait_until(lambda: not _list_open_operations(served_project))
    async with await served_project.connect_to(f"{served_project.uri}&replication=database") as session:
        cursor = await session.execute("CREATE_REPLICATION_SLOT s TEMPORARY LOGICAL pgoutput")
        assert (await cursor.fetchone() or [""])[0] == "s"
    with pytest.raises(psycopg.OperationalError, match="physical replication is not supported"):
        await served_project.connect_to(f"{served_project.uri}&replication=true")


def _list_open_operations(project: ServedProject) -> list[Any]:
    path = f"{project.project_path}/operations"
    return [each for each in project.api.get(path).json()["operations"] if each["status"] in {"running", "scheduling"}]


async def test_what_was_used_is_known_and_survives_the_death_of_a_worker(
    project_on_own_platform: ServedProject,
) -> None:
    megabyte = "select repeat('x', 1000000)"
    async with await project_on_own_platform.connect() as session:
        for _ in range(3):
            await fetch_value(session, megabyte)
        await asyncio.sleep(REPORT_SECONDS)
        for worker in project_on_own_platform.worker_pids():
            os.kill(worker, signal.SIGKILL)
    wait_until(lambda: all(map(is_alive, project_on_own_platform.worker_pids())))
    project = project_on_own_platform.api.get(project_on_own_platform.project_path).json()["project"]
    transferred = project["data_transfer_bytes"]
    assert 3_000_000 < transferred < 3_100_000
    assert await project_on_own_platform.fetch_value("select 1") == 1
