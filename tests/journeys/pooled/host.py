"""The pooled host of a served project, and an eye on the connections that Postgres has behind it."""

import asyncio
import threading
from typing import Any

import psycopg

from journeys.served import ADDRESS, Served

DIRECT = "direct"  # the application name of those that look on, which no pool is to answer for
_SERVERS = f"""
    select count(*) from pg_stat_activity
    where backend_type = 'client backend' and usename = 'neondb_owner' and application_name <> '{DIRECT}'
"""
_AT_ONCE = 50
_PAUSE = 0.02  # seconds


def pooled_uri(one: Served) -> str:
    """As the API gives it to who asks for it."""
    given = one.made["connection_uris"][0]["connection_parameters"]
    asked = {"database_name": given["database"], "role_name": given["role"], "pooled": "true"}
    answer = one.api.get(f"/projects/{one.made['project']['id']}/connection_uri", params=asked)
    return str(answer.raise_for_status().json()["uri"])


def reachable(uri: str) -> str:
    """Whatever this machine's resolver says of the name."""
    return f"{uri}&hostaddr={ADDRESS}"


async def enter(one: Served, **more: Any) -> psycopg.AsyncConnection[Any]:
    """A pooled client that is closed with the test, if not before."""
    session = await one.entered(reachable(pooled_uri(one)), **more)
    one.sessions.append(session)
    return session


async def enter_many(one: Served, count: int) -> list[psycopg.AsyncConnection[Any]]:
    """So many, a few at a time."""
    uri, gate = reachable(pooled_uri(one)), asyncio.Semaphore(_AT_ONCE)

    async def enters() -> psycopg.AsyncConnection[Any]:
        async with gate:
            session = await one.entered(uri)
        one.sessions.append(session)
        return session

    return await asyncio.gather(*(enters() for _ in range(count)))


class Watch:
    """How many connections Postgres had at most while this was open; looks by a direct connection of its own.

    What counts was there in two looks: one that the pool has closed is seen until its process has ended.
    """

    def __init__(self, one: Served) -> None:
        self.most = 0
        self.looks = 0
        self._session: psycopg.Connection[Any] = psycopg.connect(one.uri, autocommit=True, application_name=DIRECT)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._session.close()

    def now(self) -> int:
        row = self._session.execute(_SERVERS).fetchone()
        assert row is not None
        return int(row[0])

    def _look(self) -> None:
        before = 0
        while not self._over.wait(_PAUSE):
            seen = self.now()
            self.most = max(self.most, min(before, seen))
            self.looks += 1
            before = seen
