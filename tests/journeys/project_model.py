"""A model of a project, and the real project on a running platform.

Each action changes both. The model determines the expected response. At the end `compare` checks the API and
Postgres against the model.
"""

import os
import signal
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import quote

import httpx2
import psycopg

from journeys.served_project import ADDRESS, TIMEOUT
from support.program import Program, wait_until

Json = dict[str, Any]
OWNER, DATABASE = "neondb_owner", "neondb"
_DATABASES = """
    select datname::text, pg_get_userbyid(datdba)::text from pg_database
     where datname not in ('postgres', 'template0', 'template1')
"""


@dataclass(eq=False)
class BranchModel:
    """The expected state of a branch."""

    id: str
    name: str
    parent: "BranchModel | None"
    passwords: dict[str, str]
    databases: dict[str, str]  # name → owner
    rows: set[int]
    is_protected: bool = False
    is_default: bool = False
    endpoint: str | None = None
    is_disabled: bool = False
    is_deleted: bool = False

    @property
    def can_connect(self) -> bool:
        return self.endpoint is not None and not self.is_disabled


@dataclass
class ProjectModel:
    bough: Program
    api: httpx2.Client
    project: Json
    port: int
    branches: list[BranchModel] = field(default_factory=list)
    kills_control: bool = False  # after the next response to a change

    @classmethod
    def create(cls, bough: Program, api: httpx2.Client, port: int) -> "ProjectModel":
        created = api.post("/projects", json={"project": {"name": "daily"}}).raise_for_status().json()
        model = cls(bough, api, created["project"], port)
        root = BranchModel(
            id=created["branch"]["id"],
            name="main",
            parent=None,
            passwords={OWNER: created["roles"][0]["password"]},
            databases={DATABASE: OWNER},
            rows=set(),
            is_default=True,
            endpoint=created["endpoints"][0]["id"],
        )
        model.branches.append(root)
        model.wait_for_operations(created["operations"])
        model.execute(root, "create table if not exists t (n int primary key)")
        return model

    def request(self, method: str, path: str, body: Json | None = None, *, expected: int = 200) -> Json:
        """Sends a request, checks the status and waits for the operations. May kill control after the response."""
        response = self.api.request(method, f"/projects/{self.project['id']}{path}", json=body)
        assert response.status_code == expected, f"{method} {path} {body}: {response.status_code} {response.text}"
        result: Json = response.json() if response.content else {}
        if self.kills_control and method != "GET":
            self._kill_control()
        self.wait_for_operations(result.get("operations", []))
        return result

    def wait_for_operations(self, operations: list[Json]) -> None:
        for operation in operations:
            ended = wait_until(partial(self._get_ended_operation, operation["id"]), TIMEOUT)
            assert ended["status"] in ("finished", "skipped"), ended

    def _get_ended_operation(self, operation_id: str) -> Json | None:
        operation: Json = self.api.get(f"/projects/{self.project['id']}/operations/{operation_id}").json()["operation"]
        return None if operation["status"] in ("scheduling", "running", "cancelling") else operation

    def _kill_control(self) -> None:
        pid = self.bough.status()["control_pid"]
        os.kill(pid, signal.SIGKILL)
        self.bough.wait_for_restart(pid)
        self.kills_control = False

    def execute(
        self, branch: BranchModel, statement: str, role: str = OWNER, database: str = DATABASE
    ) -> list[tuple[Any, ...]]:
        """Runs a statement through the gateway, which wakes the compute if needed."""
        region = self.project["region_id"].split("-", 1)
        with psycopg.connect(
            host=f"{branch.endpoint}.{region[1]}.{region[0]}.localhost",
            hostaddr=ADDRESS,
            port=self.port,
            user=role,
            password=branch.passwords[role],
            dbname=database,
            sslmode="require",
            autocommit=True,
            connect_timeout=TIMEOUT,
        ) as session:
            cursor = session.execute(statement)
            return cursor.fetchall() if cursor.description else []

    @property
    def existing_branches(self) -> list[BranchModel]:
        return [branch for branch in self.branches if not branch.is_deleted]

    def has_children(self, branch: BranchModel) -> bool:
        return any(each.parent is branch for each in self.existing_branches)

    def compare(self) -> None:
        """Checks that the API and Postgres agree with the model."""
        listed = self.request("GET", "/branches?include_deleted=true")["branches"]
        assert {each["id"] for each in listed} == {branch.id for branch in self.branches}
        existing = {each["id"]: each for each in self.request("GET", "/branches")["branches"]}
        assert existing.keys() == {branch.id for branch in self.existing_branches}
        endpoints = {each["id"]: each for each in self.request("GET", "/endpoints")["endpoints"]}
        assert endpoints.keys() == {branch.endpoint for branch in self.existing_branches if branch.endpoint}
        for branch in self.existing_branches:
            self._compare_branch(branch, existing[branch.id], endpoints)

    def _compare_branch(self, branch: BranchModel, actual: Json, endpoints: dict[str, Json]) -> None:
        assert (actual["name"], actual["protected"], actual["default"], actual["current_state"]) == (
            branch.name,
            branch.is_protected,
            branch.is_default,
            "ready",
        )
        assert actual.get("parent_id") == (branch.parent.id if branch.parent else None)
        branch_path = f"/branches/{branch.id}"
        assert {
            each["name"] for each in self.request("GET", f"{branch_path}/roles")["roles"]
        } == branch.passwords.keys()
        databases = self.request("GET", f"{branch_path}/databases")["databases"]
        assert {each["name"]: each["owner_name"] for each in databases} == branch.databases
        for role, password in branch.passwords.items():
            revealed = self.request("GET", f"{branch_path}/roles/{quote(role, safe='')}/reveal_password")
            assert revealed == {"password": password}
        if branch.endpoint:
            assert endpoints[branch.endpoint]["disabled"] == branch.is_disabled
        if branch.can_connect:
            assert {row[0] for row in self.execute(branch, "select n from t")} == branch.rows
            roles = self.execute(branch, "select rolname::text from pg_roles where rolname !~ '^(pg|bough)_'")
            assert {row[0] for row in roles} == branch.passwords.keys()
            assert dict(self.execute(branch, _DATABASES)) == branch.databases
            for role in branch.passwords:
                assert self.execute(branch, "select current_user::text", role) == [(role,)]
