"""The program with one project behind its gateway, and clients that connect to it as users do."""

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
NO_RATE_LIMIT = {"BOUGH_RATE_PER_MINUTE": "1000000"}  # tests ask again and again
ADDRESS = "127.0.0.1"  # where the hosts are, whatever this machine's resolver says of their names


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
        return f"/projects/{self.creation_response['project']['id']}/endpoints/{self.endpoint_id}"

    @property
    def uri(self) -> str:
        return f"{self.api_uri}&hostaddr={ADDRESS}"

    @property
    def api_uri(self) -> str:
        """As the API gives it."""
        return str(self.creation_response["connection_uris"][0]["connection_uri"])

    @property
    def settings(self) -> Settings:
        return Settings(home=self.bough.home)

    async def connect(self, **more: Any) -> psycopg.AsyncConnection[Any]:
        """One that is closed with the test, if not before."""
        session = await self.connect_to(self.uri, **more)
        self.sessions.append(session)
        return session

    async def connect_to(self, uri: str, **more: Any) -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(uri, autocommit=True, connect_timeout=TIMEOUT, **more)

    async def fetch_value(self, statement: str) -> Any:
        """Through a connection of its own."""
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
        """Its computes stop. Some sessions may still be open."""
        with make_http_client(self.api.base_url, self.api.headers) as api:
            path = f"/projects/{self.creation_response['project']['id']}"
            wait_until(lambda: api.delete(path).status_code != LOCKED)

    def worker_pids(self) -> list[int]:
        return [int(worker["pid"]) for worker in self.read_supervisor_state()["workers"]]

    def read_supervisor_state(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads((self.bough.home / "supervisor.json").read_text())
        return said

    async def get_postmaster_pid(self) -> int:
        """The process that started the one behind a connection of ours."""
        async with await self.connect_to(self.uri) as session:
            backend = await fetch_value(session, "select pg_backend_pid()")
            return int(Path(f"/proc/{backend}/stat").read_text().rsplit(")", 1)[1].split()[1])


async def fetch_value(session: psycopg.AsyncConnection[Any], statement: str) -> Any:
    row = await (await session.execute(statement)).fetchone()
    return row[0] if row else None


@asynccontextmanager
async def start_platform_with_project(
    bough: Program, *, cu: float = 0.25, **settings: Any
) -> AsyncIterator[ServedProject]:
    """A platform of its own, with a project."""
    async with create_project(RunningPlatform(bough, bough.up()), cu=cu, **settings) as one:
        yield one


@dataclass(frozen=True)
class RunningPlatform:
    bough: Program
    up_output: dict[str, Any]  # by `up`


def make_http_client(url: httpx2.URL | str, headers: Mapping[str, str]) -> httpx2.Client:
    """Nobody shows a certificate, and to read those that are trusted would take longer than many a test."""
    return httpx2.Client(base_url=url, headers=headers, timeout=TIMEOUT, verify=False)


@asynccontextmanager
async def create_project(
    running: RunningPlatform, *, cu: float = 0.25, **settings: Any
) -> AsyncIterator[ServedProject]:
    """A project of its own on a platform that runs."""
    api = make_http_client(running.up_output["api_url"], {"Authorization": f"Bearer {running.up_output['api_key']}"})
    defaults = {"autoscaling_limit_min_cu": cu, "autoscaling_limit_max_cu": cu, **settings}
    made = api.post("/projects", json={"project": {"name": "served", "default_endpoint_settings": defaults}})
    one = ServedProject(running.bough, api, made.raise_for_status().json(), running.up_output["gateway_port"])
    try:
        wait_until(lambda: one.get_state() == "active")
        yield one
    finally:
        await one.close()


async def gather_results(*work: Any) -> list[Any]:
    """All results; an error is one of them."""
    return await asyncio.gather(*work, return_exceptions=True)


def private_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
