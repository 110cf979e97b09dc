"""An instant database through the gateway, as somebody meets it who has nothing but the address of the platform."""

import asyncio
from typing import Any

import httpx2
import psycopg
import pytest

from journeys.served_project import ADDRESS, TIMEOUT, RunningPlatform, fetch_value


async def test_its_string_works_the_moment_it_is_returned_pooled_and_direct(running_platform: RunningPlatform) -> None:
    made = create(running_platform)
    async with await entered(made["connection_string"]) as session:
        await session.execute("create table notes (text text)")
        await session.execute("insert into notes values ('kept')")
    direct = made["connection_string"].replace("-pooler", "", 1)
    async with await entered(direct) as session:
        assert await fetch_value(session, "select text from notes") == "kept"
        assert (await fetch_value(session, "show server_version")).startswith("17.")


async def test_logical_replication_works_when_it_was_asked_for(running_platform: RunningPlatform) -> None:
    """The subscriber is an instant database, too, and comes by the string that anybody has."""
    publisher, subscriber = (create(running_platform, enable_logical_replication=True), create(running_platform))
    source = f"{_direct(publisher)}&hostaddr={ADDRESS}"
    async with await entered(_direct(publisher)) as there, await entered(_direct(subscriber)) as here:
        await there.execute("create table colours (name text primary key)")
        await there.execute("insert into colours values ('red')")
        await there.execute("create publication p for table colours")
        await here.execute("create table colours (name text primary key)")
        await here.execute(f"create subscription s connection '{source}' publication p".encode())
        await there.execute("insert into colours values ('green')")
        async with asyncio.timeout(TIMEOUT):
            while await fetch_value(here, "select count(*) from colours") < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await here.execute("drop subscription s")


async def test_without_it_a_slot_is_refused(running_platform: RunningPlatform) -> None:
    async with await entered(_direct(create(running_platform))) as session:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied to use replication slots"):
            await session.execute("select pg_create_logical_replication_slot('s', 'pgoutput')")


def create(running: RunningPlatform, **fields: Any) -> dict[str, Any]:
    url = f"{running.up_output['instant_url']}/database"
    answer = httpx2.post(url, json={"ref": "tests", **fields}, timeout=TIMEOUT)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def entered(uri: str) -> psycopg.AsyncConnection[Any]:
    return await psycopg.AsyncConnection.connect(f"{uri}&hostaddr={ADDRESS}", autocommit=True, connect_timeout=TIMEOUT)


def _direct(made: dict[str, Any]) -> str:
    return str(made["connection_string"]).replace("-pooler", "", 1)
