"""The program with one project behind its gateway, and clients that connect to it as users do."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psycopg

from bough.config import Settings
from cli.program import Program, until

PATIENCE = 60
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

    def workers(self) -> list[int]:
        return [int(worker["pid"]) for worker in self.supervisor()["workers"]]

    def supervisor(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads((self.bough.home / "supervisor.json").read_text())
        return said

    def postmaster(self) -> int:
        [file] = (self.bough.home / "volumes").glob("*/data/postmaster.pid")
        return int(file.read_text().split()[0])


async def value(session: psycopg.AsyncConnection[Any], statement: str) -> Any:
    row = await (await session.execute(statement)).fetchone()
    return row[0] if row else None


@asynccontextmanager
async def serving(bough: Program, *, cu: float = 0.25, **settings: Any) -> AsyncIterator[Served]:
    one = _served(bough, cu=cu, **settings)
    try:
        yield one
    finally:
        await one.close()


def _served(bough: Program, *, cu: float, **settings: Any) -> Served:
    said = bough.up()
    api = httpx2.Client(
        base_url=said["api_url"], headers={"Authorization": f"Bearer {said['api_key']}"}, timeout=PATIENCE
    )
    defaults = {"autoscaling_limit_min_cu": cu, "autoscaling_limit_max_cu": cu, **settings}
    made = api.post("/projects", json={"project": {"name": "served", "default_endpoint_settings": defaults}})
    one = Served(bough, api, made.raise_for_status().json(), said["gateway_port"])
    until(lambda: one.state() == "active")
    return one


async def gathered(*work: Any) -> list[Any]:
    """All results; an error is one of them."""
    return await asyncio.gather(*work, return_exceptions=True)


def private_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
