"""A project on a running platform, with clients that connect through the gateway as users do."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psycopg

from bough.config import Settings
from support.program import Program, wait_until

TIMEOUT = 60
LOCKED = 423
NO_RATE_LIMIT = {"BOUGH_RATE_PER_MINUTE": "1000000"}
ADDRESS = "127.0.0.1"  # of every endpoint, because the resolver of this machine may not know its host name


@dataclass
class ServedProject:
    bough: Program
    api: httpx2.Client
    creation_response: dict[str, Any]
    gateway_port: int
    sessions: list[psycopg.AsyncConnection[Any]] = field(default_factory=list)

    @property
    def endpoint_id(self) -> str:
        return str(self.creation_response["endpoints"][0]["id"])

    @property
    def endpoint_path(self) -> str:
        return f"{self.project_path}/endpoints/{self.endpoint_id}"

    @property
    def project_path(self) -> str:
        return f"/projects/{self.creation_response['project']['id']}"

    @property
    def uri(self) -> str:
        return f"{self.api_uri}&hostaddr={ADDRESS}"

    @property
    def api_uri(self) -> str:
        """The connection URI as the API returns it."""
        return str(self.creation_response["connection_uris"][0]["connection_uri"])

    @property
    def settings(self) -> Settings:
        return Settings(home=self.bough.home)

    async def connect(self, **options: Any) -> psycopg.AsyncConnection[Any]:
        """Opens a direct connection that is closed at the end of the test."""
        session = await self.connect_to(self.uri, **options)
        self.sessions.append(session)
        return session

    async def connect_to(self, uri: str, **options: Any) -> psycopg.AsyncConnection[Any]:
        return await connect_to(uri, **options)

    async def fetch_value(self, statement: str) -> Any:
        """Runs a query on a new connection."""
        async with await self.connect_to(self.uri) as session:
            return await fetch_value(session, statement)

    async def close(self) -> None:
        for session in self.sessions:
            await session.close()
        self.api.close()

    def get_state(self) -> str:
        return str(self.get_endpoint()["current_state"])

    def get_endpoint(self) -> dict[str, Any]:
        endpoint: dict[str, Any] = self.api.get(self.endpoint_path).raise_for_status().json()["endpoint"]
        return endpoint

    def suspend(self) -> None:
        self.api.post(f"{self.endpoint_path}/suspend").raise_for_status()
        wait_until(lambda: self.get_state() == "idle")

    def delete(self) -> None:
        """Deletes the project while its connections may still be open."""
        with make_http_client(self.api.base_url, self.api.headers) as api:
            wait_until(lambda: api.delete(self.project_path).status_code != LOCKED)

    def worker_pids(self) -> list[int]:
        return [int(worker["pid"]) for worker in self.read_supervisor_state()["workers"]]

    def read_supervisor_state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((self.bough.home / "supervisor.json").read_text())
        return state

    async def get_postmaster_pid(self) -> int:
        """Returns the parent process of the backend of a new connection."""
        async with await self.connect_to(self.uri) as session:
            backend = await fetch_value(session, "select pg_backend_pid()")
            return int(Path(f"/proc/{backend}/stat").read_text().rsplit(")", 1)[1].split()[1])


async def connect_to(uri: str, **options: Any) -> psycopg.AsyncConnection[Any]:
    return await psycopg.AsyncConnection.connect(uri, autocommit=True, connect_timeout=TIMEOUT, **options)


async def fetch_value(session: psycopg.AsyncConnection[Any], statement: str) -> Any:
    row = await (await session.execute(statement)).fetchone()
    return row[0] if row else None


@asynccontextmanager
async def start_platform_with_project(
    bough: Program, *, cu: float = 0.25, **settings: Any
) -> AsyncIterator[ServedProject]:
    """Starts a platform and creates a project on it."""
    async with create_project(RunningPlatform(bough, bough.up()), cu=cu, **settings) as project:
        yield project


@dataclass(frozen=True)
class RunningPlatform:
    bough: Program
    up_output: dict[str, Any]  # of `bough up --json`


def make_http_client(url: httpx2.URL | str, headers: Mapping[str, str]) -> httpx2.Client:
    """Creates a client that loads no trusted certificates: loading is slow, and the API uses plain HTTP."""
    return httpx2.Client(base_url=url, headers=headers, timeout=TIMEOUT, verify=False)


@asynccontextmanager
async def create_project(
    platform: RunningPlatform, *, cu: float = 0.25, **settings: Any
) -> AsyncIterator[ServedProject]:
    """Creates a project and waits until its compute runs. The caller deletes the project."""
    api = make_http_client(platform.up_output["api_url"], {"Authorization": f"Bearer {platform.up_output['api_key']}"})
    defaults = {"autoscaling_limit_min_cu": cu, "autoscaling_limit_max_cu": cu, **settings}
    response = api.post("/projects", json={"project": {"name": "served", "default_endpoint_settings": defaults}})
    project = ServedProject(platform.bough, api, response.raise_for_status().json(), platform.up_output["gateway_port"])
    try:
        wait_until(lambda: project.get_state() == "active")
        yield project
    finally:
        await project.close()


async def gather_results(*awaitables: Any) -> list[Any]:
    """Returns all results. Exceptions are returned as results."""
    return await asyncio.gather(*awaitables, return_exceptions=True)


def read_private_kib(pid: int) -> int:
    """Returns the private memory of a process in KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
