"""Connections to the pooled host of a project, and a monitor of its server connections in Postgres."""

import asyncio
import threading
from typing import Any

import psycopg

from journeys.served_project import ADDRESS, ServedProject

DIRECT_APPLICATION_NAME = "direct"  # application name of direct connections of the tests
_COUNT_SERVER_CONNECTIONS = f"""
    select count(*) from pg_stat_activity
    where backend_type = 'client backend' and usename = 'neondb_owner'
        and application_name <> '{DIRECT_APPLICATION_NAME}'
"""
_MAX_CONNECTING = 50
_SAMPLE_INTERVAL = 0.02  # seconds


def get_pooled_uri(project: ServedProject) -> str:
    """Returns the pooled connection URI from the API."""
    parameters = project.creation_response["connection_uris"][0]["connection_parameters"]
    query = {"database_name": parameters["database"], "role_name": parameters["role"], "pooled": "true"}
    response = project.api.get(f"{project.project_path}/connection_uri", params=query)
    return str(response.raise_for_status().json()["uri"])


def with_address(uri: str) -> str:
    """Adds the address of the host, which the resolver of this machine may not know."""
    return f"{uri}&hostaddr={ADDRESS}"


async def connect(project: ServedProject, **options: Any) -> psycopg.AsyncConnection[Any]:
    """Opens a pooled connection that is closed at the end of the test."""
    session = await project.connect_to(with_address(get_pooled_uri(project)), **options)
    project.sessions.append(session)
    return session


async def connect_many(project: ServedProject, count: int) -> list[psycopg.AsyncConnection[Any]]:
    """Opens pooled connections, a limited number at the same time."""
    uri, semaphore = with_address(get_pooled_uri(project)), asyncio.Semaphore(_MAX_CONNECTING)

    async def connect_one() -> psycopg.AsyncConnection[Any]:
        async with semaphore:
            session = await project.connect_to(uri)
        project.sessions.append(session)
        return session

    return await asyncio.gather(*(connect_one() for _ in range(count)))


class ServerConnectionMonitor:
    """Samples the number of server connections over a direct connection, and keeps the maximum.

    The maximum counts connections that were present in two samples, because Postgres shows a closed connection until
    its process has ended.
    """

    def __init__(self, project: ServedProject) -> None:
        self.maximum = 0
        self.samples = 0
        self._session: psycopg.Connection[Any] = psycopg.connect(
            project.uri, autocommit=True, application_name=DIRECT_APPLICATION_NAME
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> "ServerConnectionMonitor":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._session.close()

    def count(self) -> int:
        row = self._session.execute(_COUNT_SERVER_CONNECTIONS).fetchone()
        assert row is not None
        return int(row[0])

    def _sample(self) -> None:
        previous = 0
        while not self._stop.wait(_SAMPLE_INTERVAL):
            count = self.count()
            self.maximum = max(self.maximum, min(previous, count))
            self.samples += 1
            previous = count
