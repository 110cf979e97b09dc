"""The `bough` program with a home of its own: real processes, started and stopped by its commands."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg
import httpx2

from bough.config import Settings

ENDED = {"finished", "failed", "cancelled", "skipped"}

# A measurement asks more often than a user may.
WITHOUT_RATE_LIMITS = {"BOUGH_RATE_PER_MINUTE": "1000000000", "BOUGH_RATE_PER_SECOND_AND_ROUTE": "1000000000"}


class Program:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.settings = Settings(home=home)
        self.port = free_port()
        self.key = ""
        self._gateway_port = free_port()

    def up(self) -> None:
        ports = ("--api-port", str(self.port), "--gateway-port", str(self._gateway_port))
        said = json.loads(self.command("up", "--detach", "--json", *ports))
        self.key = said["api_key"]

    def command(self, name: str, *arguments: str) -> str:
        """Run `bough name …` on this home; what it printed."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "bough.cli.main", name, "--home", str(self.home), *arguments],
            env=_environment(),
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"bough {name} failed: {done.stderr.strip()}")
        return done.stdout

    @property
    def control_pid(self) -> int:
        return int(json.loads((self.home / "supervisor.json").read_text())["control_pid"])

    @contextmanager
    def client(self) -> Iterator[httpx2.Client]:
        """A client with the operator's key and one connection that stays open."""
        headers = {"Authorization": f"Bearer {self.key}"}
        with httpx2.Client(base_url=f"http://127.0.0.1:{self.port}/api/v2", headers=headers, timeout=60) as client:
            yield client

    def socket_folder(self, made: dict[str, Any]) -> Path:
        return self.settings.sockets / str(made["endpoints"][0]["id"])

    async def connect(self, made: dict[str, Any]) -> Any:
        """A session by the compute's socket, as the project's role, in its database."""
        known = made["connection_uris"][0]["connection_parameters"]
        return await asyncpg.connect(
            host=str(self.socket_folder(made)), user=known["role"], database=known["database"], password="", ssl=False
        )

    def postmasters(self) -> dict[str, tuple[int, int]]:
        """Volume → pid and moment of start of the Postgres that lives on it."""
        found = {}
        for file in self.home.glob("volumes/*/data/postmaster.pid"):
            with suppress(FileNotFoundError):  # it ended while we looked
                pid, _folder, started = file.read_text().splitlines()[:3]
                if Path(f"/proc/{pid}").exists():
                    found[file.parent.parent.name] = (int(pid), int(started))
        return found


@contextmanager
def running() -> Iterator[Program]:
    """A platform that runs; at the end nothing of it is left."""
    folder = Path(tempfile.mkdtemp(prefix="bough-bench-", dir="/tmp"))
    folder.chmod(0o711)  # as root computes run under other users, who must pass
    made = Program(folder / "home")
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(shutil.rmtree, made.settings.sockets, ignore_errors=True)
        stack.callback(made.command, "down")
        made.up()
        yield made


def create_project(client: httpx2.Client, name: str) -> dict[str, Any]:
    """What `POST /projects` answered."""
    answer = client.post("/projects", json={"project": {"name": name}})
    answer.raise_for_status()
    made: dict[str, Any] = answer.json()
    return made


def finished(client: httpx2.Client, made: dict[str, Any], pause: float) -> list[dict[str, Any]]:
    """The operations that the creation began, when all have ended, in the order they ran."""
    last = made["operations"][-1]
    path = f"/projects/{made['project']['id']}/operations"
    while client.get(f"{path}/{last['id']}").raise_for_status().json()["operation"]["status"] not in ENDED:
        time.sleep(pause)
    operations: list[dict[str, Any]] = client.get(path).raise_for_status().json()["operations"]
    for operation in operations:
        if operation["status"] != "finished":
            raise RuntimeError(f"{operation['action']} is {operation['status']}: {operation.get('error')}")
    return operations[::-1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _environment() -> dict[str, str]:
    """Without settings of ours, and with byte code kept between two starts, as everywhere but in some containers."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("BOUGH_") and name != "PYTHONDONTWRITEBYTECODE"
    }
    return {**kept, **WITHOUT_RATE_LIMITS}
