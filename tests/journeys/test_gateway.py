"""Users and the gateway: what sleeps is woken, what runs is reached, and what is used is known."""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli.program import is_alive, until
from journeys.served import Running, Served, gathered, sharing, value

SLOW_ENOUGH = 3.5  # seconds for a report to reach control


async def test_a_uri_from_the_api_works_awake_and_asleep(one: Served) -> None:
    assert await one.value("select 6 * 7") == 42
    one.suspend()
    assert await one.value("select current_database()") == "neondb"
    seen = one.seen()
    assert seen["current_state"] == "active"
    assert seen["last_active"] >= seen["started_at"]
    assert "suspended_at" not in seen


async def test_a_disabled_endpoint_says_so_until_it_is_enabled(one: Served) -> None:
    session = await one.connect()
    one.api.patch(one.path, json={"endpoint": {"disabled": True}}).raise_for_status()
    until(lambda: one.state() == "idle")
    with pytest.raises(psycopg.OperationalError):
        await session.execute("select 1")
    with pytest.raises(psycopg.OperationalError, match="disabled"):
        await one.connect()
    assert one.state() == "idle"
    one.api.patch(one.path, json={"endpoint": {"disabled": False}}).raise_for_status()
    assert await one.value("select 1") == 1


async def test_a_wake_that_fails_tells_why(alone: Served) -> None:
    alone.suspend()
    [volume] = volumes_of(alone)
    data = volume / "data"
    (data / "PG_VERSION").rename(data / "PG_VERSION.away")
    with pytest.raises(psycopg.OperationalError, match=r"57P03|compute|Postgres"):
        await alone.connect()
    (data / "PG_VERSION.away").rename(data / "PG_VERSION")
    assert await alone.value("select 1") == 1


def volumes_of(one: Served) -> list[Path]:
    kept = (one.bough.home / "volumes").glob("*/volume.json")
    return [file.parent for file in kept if one.made["project"]["id"] in file.read_text()]


async def test_strangers_wake_nothing_and_learn_nothing(one: Served) -> None:
    one.suspend()
    said = []
    for uri in (
        one.uri.replace("neondb_owner:", "nobody:"),
        one.uri.replace(":npg_", ":wrong_"),
        one.uri.replace(one.endpoint, "ep-never-was-a1b2c3d4"),
    ):
        with pytest.raises(psycopg.OperationalError) as refused:
            await one.entered(uri)
        said.append(str(refused.value).rsplit("FATAL:", 1)[1].strip())
    assert said[0] == 'password authentication failed for user "nobody"'
    assert said[1:] == ['password authentication failed for user "neondb_owner"'] * 2
    assert one.state() == "idle"


async def test_roles_of_sql_follow_within_seconds(one: Served) -> None:
    async with await one.connect() as session:
        await session.execute("create role app login password 'first'")
        await session.execute("grant all on database neondb to app")
    as_app = one.uri.replace("neondb_owner:npg_", "app:npg_")
    owner_password = psycopg.conninfo.conninfo_to_dict(one.uri)["password"]

    async def enters(password: str) -> bool:
        try:
            async with await one.entered(as_app.replace(str(owner_password), password)):
                return True
        except psycopg.OperationalError as error:
            assert "password authentication failed" in str(error) or 'role "app" does not exist' in str(error)
            return False

    async def comes_to(password: str, wished: bool) -> None:
        deadline = time.monotonic() + 20
        while await enters(password) is not wished:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.3)

    await comes_to("first", wished=True)
    async with await one.connect() as session:
        await session.execute("alter role app password 'second'")
    await comes_to("second", wished=True)
    assert not await enters("first")
    one.suspend()
    assert await enters("second")  # also while it slept
    async with await one.connect() as session:
        await session.execute("alter role app valid until '2020-01-01'")
    await comes_to("second", wished=False)
    async with await one.connect() as session:
        await session.execute("alter role app valid until 'infinity'")
        await session.execute("select 1")
    await comes_to("second", wished=True)
    async with await one.connect() as session:
        await session.execute("revoke all on database neondb from app; drop role app")
    await comes_to("second", wished=False)


async def test_many_at_once_wake_it_once(shared: Running, long: bool) -> None:
    """Each ends with its row or with a clear error; there is one start however many wait."""
    count = 500 if long else 60
    async with sharing(shared, cu=2) as one:
        one.suspend()
        before = _starts(one)
        results = await gathered(*(one.value("select 1") for _ in range(count)))
        assert results == [1] * count
        assert _starts(one) == before + 1
        one.delete()


def _starts(one: Served) -> int:
    operations = one.api.get(f"/projects/{one.made['project']['id']}/operations", params={"limit": 1000}).json()
    return sum(each["action"] == "start_compute" for each in operations["operations"])


async def test_idle_connections_stay_and_answer(own: Running, long: bool) -> None:
    count = 2000 if long else 80
    async with sharing(own, cu=8 if long else 0.25) as one:
        for _ in range(count // 40):
            await asyncio.gather(*(one.connect() for _ in range(40)))
        assert [await value(session, "select 1") for session in one.sessions] == [1] * count
        until(lambda: _connections(one) == count)
        await asyncio.gather(*(session.close() for session in one.sessions))
        until(lambda: _connections(one) == 0)
        one.delete()


def _connections(one: Served) -> float:
    lines = one.api.get(str(one.api.base_url).replace("/api/v2/", "/metrics")).text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("bough_gateway_connections{"))


async def test_replication_is_for_roles_that_may(one: Served) -> None:
    project = one.made["project"]["id"]
    one.api.patch(f"/projects/{project}", json={"project": {"settings": {"enable_logical_replication": True}}})
    until(lambda: not _open_operations(one))
    async with await one.entered(f"{one.uri}&replication=database") as session:
        made = await session.execute("CREATE_REPLICATION_SLOT s TEMPORARY LOGICAL pgoutput")
        assert (await made.fetchone() or [""])[0] == "s"
    with pytest.raises(psycopg.OperationalError, match="physical replication is not supported"):
        await one.entered(f"{one.uri}&replication=true")


def _open_operations(one: Served) -> list[Any]:
    path = f"/projects/{one.made['project']['id']}/operations"
    return [each for each in one.api.get(path).json()["operations"] if each["status"] in {"running", "scheduling"}]


async def test_what_was_used_is_known_and_survives_the_death_of_a_worker(alone: Served) -> None:
    megabyte = "select repeat('x', 1000000)"
    async with await alone.connect() as session:
        for _ in range(3):
            await value(session, megabyte)
        await asyncio.sleep(SLOW_ENOUGH)
        for worker in alone.workers():
            os.kill(worker, signal.SIGKILL)
    until(lambda: all(map(is_alive, alone.workers())))
    transferred = alone.api.get(f"/projects/{alone.made['project']['id']}").json()["project"]["data_transfer_bytes"]
    assert 3_000_000 < transferred < 3_100_000
    assert await alone.value("select 1") == 1
