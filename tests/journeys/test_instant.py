"""An instant database through the gateway, for a client that knows only the address of the platform."""

import asyncio
from typing import Any

import httpx2
import psycopg
import pytest

from journeys.pooled.connections import with_address
from journeys.served_project import TIMEOUT, RunningPlatform, connect_to, fetch_value


async def test_its_string_works_the_moment_it_is_returned_pooled_and_direct(running_platform: RunningPlatform) -> None:
    database = create_database(running_platform)
    async with await connect(database["connection_string"]) as session:
        await session.execute("create table notes (text text)")
        await session.execute("insert into notes values ('kept')")
    async with await connect(get_direct_uri(database)) as session:
        assert await fetch_value(session, "select text from notes") == "kept"
        assert (await fetch_value(session, "show server_version")).startswith("17.")


async def test_logical_replication_works_when_it_was_asked_for(running_platform: RunningPlatform) -> None:
    """The subscriber is an instant database too, and uses the ordinary connection string."""
    publisher, subscriber = (
        create_database(running_platform, enable_logical_replication=True),
        create_database(running_platform),
    )
    source = with_address(get_direct_uri(publisher))
    async with (
        await connect(get_direct_uri(publisher)) as publisher_session,
        await connect(get_direct_uri(subscriber)) as subscriber_session,
    ):
        await publisher_session.execute("create table colours (name text primary key)")
        await publisher_session.execute("insert into colours values ('red')")
        await publisher_session.execute("create publication p for table colours")
        await subscriber_session.execute("create table colours (name text primary key)")
        await subscriber_session.execute(f"create subscription s connection '{source}' publication p".encode())
        await publisher_session.execute("insert into colours values ('green')")
        async with asyncio.timeout(TIMEOUT):
            while await fetch_value(subscriber_session, "select count(*) from colours") < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await subscriber_session.execute("drop subscription s")


async def test_without_it_a_slot_is_refused(running_platform: RunningPlatform) -> None:
    async with await connect(get_direct_uri(create_database(running_platform))) as session:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied to use replication slots"):
            await session.execute("select pg_create_logical_replication_slot('s', 'pgoutput')")


def create_database(platform: RunningPlatform, **fields: Any) -> dict[str, Any]:
    url = f"{platform.up_output['instant_url']}/database"
    response = httpx2.post(url, json={"ref": "tests", **fields}, timeout=TIMEOUT)
    assert response.status_code == 201, response.text
    database: dict[str, Any] = response.json()
    return database


async def connect(uri: str) -> psycopg.AsyncConnection[Any]:
    return await connect_to(with_address(uri))


def get_direct_uri(database: dict[str, Any]) -> str:
    return str(database["connection_string"]).replace("-pooler", "", 1)
