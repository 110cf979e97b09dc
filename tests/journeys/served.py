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
from cli.program import Program, until

PATIENCE = 60
LOCKED = 423
RATELESS = {"BOUGH_RATE_PER_MINUTE": "1000000"}  # tests ask again and again
ADDRESS = "127.0.0.1"  # where the hosts are, whatever this machine's resolver says of their names


@dataclass
class Served:
    bough: Program
    api: httpx2.Client
    made: dict[str, Any]
    gateway_port: int
    sessions: list[psycopg.AsyncConnection[Any]] = field(default_factory=list)

    @property
    def endpoint(self) -> str:
        return str(self.made["endpoints"][0]["id"])

    @property
    def path(self) -> str:
        return f"/projects/{self.made['project']['id']}/endpoints/{self.endpoint}"

    @property
    def uri(self) -> str:
        return f"{self.given_uri}&hostaddr={ADDRESS}"

    @property
    def given_uri(self) -> str:
        """As the API gives it."""
        return str(self.made["connection_uris"][0]["connection_uri"])

    @property
    def settings(self) -> Settings:
        return Settings(home=self.bough.home)

    async def connect(self, **more: Any) -> psycopg.AsyncConnection[Any]:
        """One that is closed with the test, if not before."""
        session = await self.entered(self.uri, **more)
        self.sessions.append(session)
        return session

    async def entered(self, uri: str, **more: Any) -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(uri, autocommit=True, connect_timeout=PATIENCE, **more)

    async def value(self, statement: str) -> Any:
        """Through a connection of its own."""
        async with await self.entered(self.uri) as session:
            return await value(session, statement)

    async def close(self) -> None:
        for session in self.sessions:
            await session.close()
        self.api.close()

    def state(self) -> str:
        return str(self.seen()["current_state"])

    def seen(self) -> dict[str, Any]:
        endpoint: dict[str, Any] = self.api.get(self.path).raise_for_status().json()["endpoint"]
        return endpoint

    def suspend(self) -> None:
        self.api.post(f"{self.path}/suspend").raise_for_status()
        until(lambda: self.state() == "idle")

    def delete(self) -> None:
        """Its computes stop. Some sessions may still be open."""
        with asking(self.api.base_url, self.api.headers) as api:
            path = f"/projects/{self.made['project']['id']}"
            until(lambda: api.delete(path).status_code != LOCKED)

    def workers(self) -> list[int]:
        return [int(worker["pid"]) for worker in self.supervisor()["workers"]]

    def supervisor(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads((self.bough.home / "supervisor.json").read_text())
        return said

    async def postmaster(self) -> int:
        """The process that started the one behind a connection of ours."""
        async with await self.entered(self.uri) as session:
            backend = await value(session, "select pg_backend_pid()")
            return int(Path(f"/proc/{backend}/stat").read_text().rsplit(")", 1)[1].split()[1])


async def value(session: psycopg.AsyncConnection[Any], statement: str) -> Any:
    row = await (await session.execute(statement)).fetchone()
    return row[0] if row else None


@asynccontextmanager
async def serving(bough: Program, *, cu: float = 0.25, **settings: Any) -> AsyncIterator[Served]:
    """A platform of its own, with a project."""
    async with sharing(Running(bough, bough.up()), cu=cu, **settings) as one:
        yield one


@dataclass(frozen=True)
class Running:
    bough: Program
    said: dict[str, Any]  # by `up`


def asking(url: httpx2.URL | str, headers: Mapping[str, str]) -> httpx2.Client:
    """Nobody shows a certificate, and to read those that are trusted would take longer than many a test."""
    return httpx2.Client(base_url=url, headers=headers, timeout=PATIENCE, verify=False)


@asynccontextmanager
async def sharing(running: Running, *, cu: float = 0.25, **settings: Any) -> AsyncIterator[Served]:
    """A project of its own on a platform that runs."""
    api = asking(running.said["api_url"], {"Authorization": f"Bearer {running.said['api_key']}"})
    defaults = {"autoscaling_limit_min_cu": cu, "autoscaling_limit_max_cu": cu, **settings}
    made = api.post("/projects", json={"project": {"name": "served", "default_endpoint_settings": defaults}})
    one = Served(running.bough, api, made.raise_for_status().json(), running.said["gateway_port"])
    try:
        until(lambda: one.state() == "active")
        yield one
    finally:
        await one.close()


async def gathered(*work: Any) -> list[Any]:
    """All results; an error is one of them."""
    return await asyncio.gather(*work, return_exceptions=True)


def private_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
