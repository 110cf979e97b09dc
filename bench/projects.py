"""A project of a running platform, and what its owner makes in it: by the API, and asked through the gateway.

Whoever asks uses the connection string of the answer and connects at once: the gateway waits for the
compute. Only the address is given beside it, whatever this machine's resolver says of the host's name.
"""

import time
from dataclasses import dataclass
from typing import Any

import httpx2
import psycopg

from bench import program
from bench.pgbench import Target
from bench.program import PATIENCE_WITH_WORK, Program
from bench.stalls import Rows
from bough.postgres import ADMIN, MAINTENANCE_DATABASE

Json = dict[str, Any]

ADDRESS = "127.0.0.1"
READ_WRITE, READ_ONLY = "read_write", "read_only"
# Nothing but what is measured: no spare computes, and none that falls asleep by itself.
VARIABLES = {"BOUGH_WARM_POOL": "0", "BOUGH_SUSPEND_TIMEOUT_DEFAULT": "604800"}
CONFIGURATION = " ".join(f"{name}={value}" for name, value in VARIABLES.items()) + " bough up"
_NOT_YET = "did not wake"  # the gateway's patience with a compute is shorter than a large copy


@dataclass(frozen=True, slots=True)
class Made:
    """A branch or an endpoint, as the API answered; its work may not be done yet."""

    project: "Project"
    path: str
    answer: Json
    uri: str  # empty without an endpoint

    @property
    def id(self) -> str:
        return self.path.rsplit("/", 1)[1]

    def until_done(self) -> None:
        self.project.platform.until_ended(self.answer)

    def first_row(self, rows: Rows) -> None:
        deadline = time.monotonic() + PATIENCE_WITH_WORK
        while True:
            try:
                return first_row(f"{self.uri}&hostaddr={ADDRESS}", rows)
            except psycopg.OperationalError as error:
                if _NOT_YET not in str(error) or time.monotonic() > deadline:
                    raise

    def delete(self) -> None:
        self.until_done()
        self.project.platform.until_ended(self.project.request("DELETE", self.path))

    def suspend(self) -> None:
        """Its first endpoint."""
        endpoint = self.answer["endpoints"][0]["id"]
        self.project.platform.until_ended(
            self.project.request("POST", f"{self.project.path}/endpoints/{endpoint}/suspend")
        )


class Project:
    def __init__(self, platform: Program, client: httpx2.Client, name: str) -> None:
        self.platform = platform
        self._client = client
        self.made = program.create_project(client, name)
        self.path = f"/projects/{self.made['project']['id']}"
        platform.until_ended(self.made)

    @property
    def target(self) -> Target:
        """Its default branch's compute by the socket, for programs and sessions."""
        known = self.made["connection_uris"][0]["connection_parameters"]
        return Target(self.platform.socket_folder(self.made), known["role"], known["database"])

    def branch(self, *, endpoint: bool = True) -> Made:
        """Of the default branch."""
        asked = {"endpoints": [{"type": READ_WRITE}] if endpoint else []}
        answer = self.request("POST", f"{self.path}/branches", asked)
        uri = answer["connection_uris"][0]["connection_uri"] if endpoint else ""
        return Made(self, f"{self.path}/branches/{answer['branch']['id']}", answer, uri)

    def endpoint(self, kind: str, branch_id: str = "") -> Made:
        """Of a branch; without one, of the default branch. Roles and passwords are those of the default branch."""
        asked = {"endpoint": {"type": kind, "branch_id": branch_id or self.made["branch"]["id"]}}
        answer = self.request("POST", f"{self.path}/endpoints", asked)
        own = self.made["connection_uris"][0]
        uri = own["connection_uri"].replace(own["connection_parameters"]["host"], answer["endpoint"]["host"])
        return Made(self, f"{self.path}/endpoints/{answer['endpoint']['id']}", answer, uri)

    def first_row_of_another(self) -> float:
        """Milliseconds until another new project of the platform gives its first row. It is deleted then."""
        began = time.perf_counter()
        made = program.create_project(self._client, "newcomer")
        conninfo = f"{made['connection_uris'][0]['connection_uri']}&hostaddr={ADDRESS}"
        with psycopg.connect(conninfo, autocommit=True, connect_timeout=int(PATIENCE_WITH_WORK)) as session:
            session.execute("select 1").fetchone()
        took = (time.perf_counter() - began) * 1e3
        self.platform.until_ended(made)
        self._client.delete(f"/projects/{made['project']['id']}").raise_for_status()
        return took

    def refused(self, method: str, path: str, body: Json) -> str:
        """Why."""
        answer = self._client.request(method, path, json=body)
        if not answer.is_client_error:
            raise RuntimeError(f"{method} {path}: {answer.status_code}")
        return str(answer.json()["message"])

    def request(self, method: str, path: str, body: Json | None = None) -> Json:
        answer = self._client.request(method, path, json=body)
        if answer.is_error:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text}")
        said: Json = answer.json()
        return said

    def command(self, *statements: str, endpoint: str = "") -> None:
        """To an endpoint's compute, by default that of the default branch, as the superuser."""
        sockets = self.platform.settings.sockets / (endpoint or self.made["endpoints"][0]["id"])
        place = f"host={sockets} user={ADMIN} dbname={MAINTENANCE_DATABASE}"
        with psycopg.connect(place, autocommit=True) as session:
            for statement in statements:
                session.execute(statement.encode())


def first_row(conninfo: str, rows: Rows) -> None:
    """Connect, and read the first of these rows: one that the parent was filled with."""
    patience = int(PATIENCE_WITH_WORK)
    with psycopg.connect(
        conninfo, autocommit=True, connect_timeout=patience, cursor_factory=psycopg.RawCursor
    ) as session:
        if session.execute(rows.read.encode(), (1,)).fetchone() is None:
            raise RuntimeError("a row is missing that the parent has")
