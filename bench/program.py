"""The `bough` program with its own home: real processes, started and stopped by its commands."""

import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg
import httpx2

from bench import storage
from bench.storage import StorageHome
from bough.config import Settings

END_STATUSES = {"finished", "failed", "cancelled", "skipped"}
IMAGE_GB = 8
TIMEOUT = 60.0  # seconds
OPERATION_TIMEOUT = 600.0  # the plain driver copies large databases
_POLL_SECONDS = 0.001  # between two reads of the store
_IDLE_SECONDS, _STATE_POLL_SECONDS = 0.5, 0.05

# The bench sends more requests than a user may.
WITHOUT_RATE_LIMITS = {"BOUGH_RATE_PER_MINUTE": "1000000000", "BOUGH_RATE_PER_SECOND_AND_ROUTE": "1000000000"}


class Program:
    """`variables` are settings as environment variables."""

    def __init__(self, storage_home: StorageHome, variables: dict[str, str]) -> None:
        self.storage_home = storage_home
        self.home = storage_home.home
        self.settings = Settings(home=self.home)
        self.port = find_free_port()
        self.key = ""
        self._variables = {"BOUGH_STORAGE": storage_home.storage, "BOUGH_HOSTS_FILE": "", **variables}
        self.gateway_port = find_free_port()

    def up(self) -> None:
        ports = ("--api-port", str(self.port), "--gateway-port", str(self.gateway_port))
        output = json.loads(self.run_command("up", "--detach", "--json", *ports))
        self.key = output["api_key"]

    def run_command(self, name: str, *arguments: str) -> str:
        """Run `bough name …` on this home and return its output."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "bough.cli.main", name, "--home", str(self.home), *arguments],
            env=_environment() | self._variables,
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
        """Yield a client with the operator's key and one persistent connection."""
        headers = {"Authorization": f"Bearer {self.key}"}
        with httpx2.Client(base_url=f"http://127.0.0.1:{self.port}/api/v2", headers=headers, timeout=60) as client:
            yield client

    def socket_folder(self, created: dict[str, Any]) -> Path:
        return self.settings.sockets / str(created["endpoints"][0]["id"])

    async def connect(self, created: dict[str, Any]) -> Any:
        """Connect through the compute's socket as the project's role, to its database."""
        known = created["connection_uris"][0]["connection_parameters"]
        return await asyncpg.connect(
            host=str(self.socket_folder(created)),
            user=known["role"],
            database=known["database"],
            password="",
            ssl=False,
        )

    def list_postmasters(self) -> dict[str, tuple[int, int]]:
        """Return volume → pid and start time of its Postgres server, without spare computes."""
        found = {}
        for file in self.storage_home.volumes_folder.glob("*/data/postmaster.pid"):
            volume = file.parent.parent.name
            with suppress(FileNotFoundError):  # it ended meanwhile
                pid, _folder, started = file.read_text().splitlines()[:3]
                if Path(f"/proc/{pid}").exists() and not volume.startswith("warm-"):
                    found[volume] = (int(pid), int(started))
        return found

    def wait_until_finished(self, created: dict[str, Any]) -> None:
        """Wait for the operations of a request. Read the store, because requests would cost control CPU time."""
        last = created["operations"][-1]["id"]
        deadline = time.monotonic() + OPERATION_TIMEOUT
        with closing(sqlite3.connect(f"file:{self.settings.store_file}?mode=ro", uri=True)) as store:
            while (ended := _get_ended_operation(store, last)) is None:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the operation {last} did not finish within {OPERATION_TIMEOUT:g} s")
                time.sleep(_POLL_SECONDS)
        action, status, error = ended
        if status != "finished":
            raise RuntimeError(f"{action} is {status}: {error}")

    def wait_until_idle(self, client: httpx2.Client, spares: int) -> None:
        """Wait until only the spare computes have been running, without open operations, for a moment."""
        deadline = time.monotonic() + TIMEOUT
        since = time.monotonic()
        while time.monotonic() - since < _IDLE_SECONDS:
            if self._state(client) != (0, 0, spares):
                since = time.monotonic()
            if time.monotonic() > deadline:
                raise RuntimeError(f"the platform did not become idle within {TIMEOUT:g} s: {self._state(client)}")
            time.sleep(_STATE_POLL_SECONDS)

    def is_refilled(self, client: httpx2.Client, spares: int) -> bool:
        """Whether no operation is open and the warm pool is full, whatever else runs."""
        return self._state(client)[1:] == (0, spares)

    def _state(self, client: httpx2.Client) -> tuple[float, float, float]:
        headers = {"Authorization": f"Bearer {self.key}"}
        response = client.get(f"http://127.0.0.1:{self.port}/metrics", headers=headers)
        lines = response.raise_for_status().text.splitlines()
        known = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        names = (
            'bough_state{thing="computes_running"}',
            'bough_state{thing="operations_open"}',
            "bough_computes_spare",
        )
        computes, operations, spares = (float(known.get(name, "nan")) for name in names)
        return computes, operations, spares


@contextmanager
def run_platform(
    driver: str = "plain", variables: dict[str, str] | None = None, image_gb: int = IMAGE_GB
) -> Iterator[Program]:
    """Yield a running platform; it is stopped and removed at the end."""
    with storage.create_storage_home(driver, image_gb) as storage_home, ExitStack() as stack:
        program = Program(storage_home, variables or {})
        stack.callback(program.run_command, "down")
        program.up()
        yield program


def create_project(client: httpx2.Client, name: str) -> dict[str, Any]:
    """Return the response of `POST /projects`."""
    response = client.post("/projects", json={"project": {"name": name}})
    response.raise_for_status()
    created: dict[str, Any] = response.json()
    return created


def get_last_operation(client: httpx2.Client, created: dict[str, Any]) -> dict[str, Any]:
    """Return the current state of the last operation."""
    path = f"/projects/{created['project']['id']}/operations/{created['operations'][-1]['id']}"
    operation: dict[str, Any] = client.get(path).raise_for_status().json()["operation"]
    return operation


def wait_for_operations(client: httpx2.Client, created: dict[str, Any], pause: float) -> list[dict[str, Any]]:
    """Wait for the operations of a creation and return them in the order in which they ran."""
    while get_last_operation(client, created)["status"] not in END_STATUSES:
        time.sleep(pause)
    path = f"/projects/{created['project']['id']}/operations"
    operations: list[dict[str, Any]] = client.get(path).raise_for_status().json()["operations"]
    for operation in operations:
        if operation["status"] != "finished":
            raise RuntimeError(f"{operation['action']} is {operation['status']}: {operation.get('error')}")
    return operations[::-1]


def _get_ended_operation(store: sqlite3.Connection, operation: str) -> tuple[str, str, str] | None:
    """Return action, status and error of an operation; None while it is open."""
    query = "select action, status, error from operations where id = ? and ended_at is not null"
    ended: tuple[str, str, str] | None = store.execute(query, (operation,)).fetchone()
    return ended


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _environment() -> dict[str, str]:
    """Return the environment without Bough's settings, and with byte code caching enabled."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("BOUGH_") and name != "PYTHONDONTWRITEBYTECODE"
    }
    return {**kept, **WITHOUT_RATE_LIMITS}
