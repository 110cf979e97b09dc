"""The pooled host of a served project, and an eye on the connections that Postgres has behind it."""

import asyncio
import threading
from typing import Any

import psycopg

from journeys.served_project import ADDRESS, ServedProject

DIRECT_APPLICATION_NAME = "direct"  # the application name of those that look on, which no pool is to answer for
_SERVERS = f"""
    select count(*) from pg_stat_activity
    where backend_type = 'client backend' and usename = 'neondb_owner'
        and application_name <> '{DIRECT_APPLICATION_NAME}'
"""
_MAX_CONNECTING = 50
_PAUSE = 0.02  # seconds


def get_pooled_uri(one: ServedProject) -> str:
    """As the API gives it to who asks for it."""
    given = one.creation_response["connection_uris"][0]["connection_parameters"]
    asked = {"database_name": given["database"], "role_name": given["role"], "pooled": "true"}
    answer = one.api.get(f"/projects/{one.creation_response['project']['id']}/connection_uri", params=asked)
    return str(answer.raise_for_status().json()["uri"])


def with_address(uri: str) -> str:
    """Whatever this machine's resolver says of the name."""
    return f"{uri}&hostaddr={ADDRESS}"


async def connect(one: ServedProject, **more: Any) -> psycopg.AsyncConnection[Any]:
    """A pooled client that is closed with the test, if not before."""
    session = await one.connect_to(with_address(get_pooled_uri(one)), **more)
    one.sessions.append(session)
    return session


async def connect_many(one: ServedProject, count: int) -> list[psycopg.AsyncConnection[Any]]:
    """So many, a few at a time."""
    uri, gate = with_address(get_pooled_uri(one)), asyncio.Semaphore(_MAX_CONNECTING)

    async def enters() -> psycopg.AsyncConnection[Any]:
        async with gate:
            session = await one.connect_to(uri)
        one.sessions.append(session)
        return session

    return await asyncio.gather(*(enters() for _ in range(count)))


class ServerConnectionMonitor:
    """How many connections Postgres had at most while this was open; looks by a direct connection of its own.

    What counts was there in two looks: one that the pool has closed is seen until its process has ended.
    """

    def __init__(self, one: ServedProject) -> None:
        self.maximum = 0
        self.samples = 0
        self._session: psycopg.Connection[Any] = psycopg.connect(
            one.uri, autocommit=True, application_name=DIRECT_APPLICATION_NAME
        )
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> "ServerConnectionMonitor":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._session.close()

    def count(self) -> int:
        row = self._session.execute(_SERVERS).fetchone()
        assert row is not None
        return int(row[0])

    def _sample(self) -> None:
        before = 0
        while not self._over.wait(_PAUSE):
            seen = self.count()
            self.maximum = max(self.maximum, min(before, seen))
            self.samples += 1
            before = seen
