"""A project of a running platform and its branches and endpoints, created with the API and queried through the gateway.

Clients use the returned connection string and connect at once: the gateway waits for the compute. Only the address is
passed separately, so that name resolution of this machine does not matter.
"""

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx2
import psycopg

from bench import program
from bench.latency_probe import ProbeRows
from bench.pgbench import ServerTarget
from bench.program import OPERATION_TIMEOUT, Program
from bough.postgres import ADMIN_ROLE, MAINTENANCE_DATABASE

Json = dict[str, Any]

ADDRESS = "127.0.0.1"
READ_WRITE, READ_ONLY = "read_write", "read_only"
# No spare computes and no automatic suspension: only what is measured runs.
# Without CPU limits, because they would limit how fast the bench fills databases.
VARIABLES = {
    "BOUGH_WARM_POOL": "0",
    "BOUGH_SUSPEND_TIMEOUT_DEFAULT": "604800",
    "BOUGH_CPU_LIMITS": "false",
}
CONFIGURATION = " ".join(f"{name}={value}" for name, value in VARIABLES.items()) + " bough up"
_NOT_AWAKE = "did not wake"  # a large copy takes longer than the gateway waits for a compute


@dataclass(frozen=True, slots=True)
class CreatedResource:
    """A branch or endpoint as the API returned it; its operations may be open."""

    project: "BenchProject"
    path: str
    response: Json
    uri: str  # empty without an endpoint

    @property
    def id(self) -> str:
        return self.path.rsplit("/", 1)[1]

    def wait_until_finished(self) -> None:
        self.project.platform.wait_until_finished(self.response)

    def read_first_row(self, rows: ProbeRows) -> None:
        deadline = time.monotonic() + OPERATION_TIMEOUT
        while True:
            try:
                return read_first_row(f"{self.uri}&hostaddr={ADDRESS}", rows)
            except psycopg.OperationalError as error:
                if _NOT_AWAKE not in str(error) or time.monotonic() > deadline:
                    raise

    def delete(self) -> None:
        self.wait_until_finished()
        self.project.platform.wait_until_finished(self.project.request("DELETE", self.path))

    def suspend(self) -> None:
        """Suspend the first endpoint."""
        endpoint = self.response["endpoints"][0]["id"]
        self.project.platform.wait_until_finished(
            self.project.request("POST", f"{self.project.path}/endpoints/{endpoint}/suspend")
        )


class BenchProject:
    def __init__(self, platform: Program, client: httpx2.Client, name: str) -> None:
        self.platform = platform
        self._client = client
        self.creation_response = program.create_project(client, name)
        self.path = f"/projects/{self.creation_response['project']['id']}"
        platform.wait_until_finished(self.creation_response)

    @property
    def target(self) -> ServerTarget:
        """How programs and sessions connect to the compute of the default branch through its socket."""
        known = self.creation_response["connection_uris"][0]["connection_parameters"]
        return ServerTarget(self.platform.socket_folder(self.creation_response), known["role"], known["database"])

    def create_branch(self, *, endpoint: bool = True) -> CreatedResource:
        """Create a branch of the default branch."""
        asked = {"endpoints": [{"type": READ_WRITE}] if endpoint else []}
        answer = self.request("POST", f"{self.path}/branches", asked)
        uri = answer["connection_uris"][0]["connection_uri"] if endpoint else ""
        return CreatedResource(self, f"{self.path}/branches/{answer['branch']['id']}", answer, uri)

    def create_endpoint(self, kind: str, branch_id: str = "") -> CreatedResource:
        """Create an endpoint of a branch, by default the default branch, whose roles and passwords it uses."""
        asked = {"endpoint": {"type": kind, "branch_id": branch_id or self.creation_response["branch"]["id"]}}
        answer = self.request("POST", f"{self.path}/endpoints", asked)
        own = self.creation_response["connection_uris"][0]
        uri = own["connection_uri"].replace(own["connection_parameters"]["host"], answer["endpoint"]["host"])
        return CreatedResource(self, f"{self.path}/endpoints/{answer['endpoint']['id']}", answer, uri)

    def time_new_project(self) -> float:
        """Return milliseconds until another new project returns its first row. The project is deleted afterwards."""
        started_at = time.perf_counter()
        created = program.create_project(self._client, "new project")
        conninfo = f"{created['connection_uris'][0]['connection_uri']}&hostaddr={ADDRESS}"
        with psycopg.connect(conninfo, autocommit=True, connect_timeout=int(OPERATION_TIMEOUT)) as session:
            session.execute("select 1").fetchone()
        durations = (time.perf_counter() - started_at) * 1e3
        self.platform.wait_until_finished(created)
        self._client.delete(f"/projects/{created['project']['id']}").raise_for_status()
        return durations

    def expect_error(self, method: str, path: str, body: Json) -> str:
        """Send a request that must fail; return its message."""
        answer = self._client.request(method, path, json=body)
        if not answer.is_client_error:
            raise RuntimeError(f"{method} {path}: {answer.status_code}")
        return str(answer.json()["message"])

    def request(self, method: str, path: str, body: Json | None = None) -> Json:
        answer = self._client.request(method, path, json=body)
        if answer.is_error:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text}")
        output: Json = answer.json()
        return output

    def execute_as_admin(self, *statements: str, endpoint: str = "") -> None:
        """Run statements on an endpoint's compute, by default that of the default branch, as the superuser."""
        sockets = self.platform.settings.sockets / (endpoint or self.creation_response["endpoints"][0]["id"])
        target = f"host={sockets} user={ADMIN_ROLE} dbname={MAINTENANCE_DATABASE}"
        with psycopg.connect(target, autocommit=True) as session:
            for statement in statements:
                session.execute(statement.encode())


def elapsed_milliseconds(first: str, last: str) -> float:
    """Return the time between two timestamps of the API."""
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds() * 1e3


def read_first_row(conninfo: str, rows: ProbeRows) -> None:
    """Connect and read the first row that the parent was filled with."""
    patience = int(OPERATION_TIMEOUT)
    with psycopg.connect(
        conninfo, autocommit=True, connect_timeout=patience, cursor_factory=psycopg.RawCursor
    ) as session:
        if session.execute(rows.read.encode(), (1,)).fetchone() is None:
            raise RuntimeError("a row of the parent is missing")
