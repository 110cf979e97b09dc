"""A project as a small model, and the real one beside it behind a running platform.

Every call is made on both: the model says what the answer must be, and at the end the two are compared: rows of
the API, states, and what Postgres itself says through the gateway.
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
    """What must be true of a branch."""

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
    kills_control: bool = False  # control dies as soon as it has answered

    @classmethod
    def create(cls, bough: Program, api: httpx2.Client, port: int) -> "ProjectModel":
        made = api.post("/projects", json={"project": {"name": "daily"}}).raise_for_status().json()
        one = cls(bough, api, made["project"], port)
        root = BranchModel(
            id=made["branch"]["id"],
            name="main",
            parent=None,
            passwords={OWNER: made["roles"][0]["password"]},
            databases={DATABASE: OWNER},
            rows=set(),
            is_default=True,
            endpoint=made["endpoints"][0]["id"],
        )
        one.branches.append(root)
        one.wait_for_operations(made["operations"])
        one.execute(root, "create table if not exists t (n int primary key)")
        return one

    def request(self, method: str, path: str, body: Json | None = None, *, expected: int = 200) -> Json:
        """The answer, which must be this one, when its work is over; control may die meanwhile."""
        answer = self.api.request(method, f"/projects/{self.project['id']}{path}", json=body)
        assert answer.status_code == expected, f"{method} {path} {body}: {answer.status_code} {answer.text}"
        shown: Json = answer.json() if answer.content else {}
        if self.kills_control and method != "GET":
            self._kill_control()
        self.wait_for_operations(shown.get("operations", []))
        return shown

    def wait_for_operations(self, operations: list[Json]) -> None:
        for operation in operations:
            shown = wait_until(partial(self._get_ended_operation, operation["id"]), TIMEOUT)
            assert shown["status"] in ("finished", "skipped"), shown

    def _get_ended_operation(self, operation_id: str) -> Json | None:
        shown: Json = self.api.get(f"/projects/{self.project['id']}/operations/{operation_id}").json()["operation"]
        return None if shown["status"] in ("scheduling", "running", "cancelling") else shown

    def _kill_control(self) -> None:
        pid = self.bough.status()["control_pid"]
        os.kill(pid, signal.SIGKILL)
        self.bough.wait_for_restart(pid)
        self.kills_control = False

    def execute(
        self, branch: BranchModel, statement: str, role: str = OWNER, database: str = DATABASE
    ) -> list[tuple[Any, ...]]:
        """Through the gateway, which wakes what sleeps."""
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
        """What the API lists and what Postgres has are what the model says."""
        listed = self.request("GET", "/branches?include_deleted=true")["branches"]
        assert {each["id"] for each in listed} == {branch.id for branch in self.branches}
        shown = {each["id"]: each for each in self.request("GET", "/branches")["branches"]}
        assert shown.keys() == {branch.id for branch in self.existing_branches}
        endpoints = {each["id"]: each for each in self.request("GET", "/endpoints")["endpoints"]}
        assert endpoints.keys() == {branch.endpoint for branch in self.existing_branches if branch.endpoint}
        for branch in self.existing_branches:
            self._compare_branch(branch, shown[branch.id], endpoints)

    def _compare_branch(self, branch: BranchModel, shown: Json, endpoints: dict[str, Json]) -> None:
        assert (shown["name"], shown["protected"], shown["default"], shown["current_state"]) == (
            branch.name,
            branch.is_protected,
            branch.is_default,
            "ready",
        )
        assert shown.get("parent_id") == (branch.parent.id if branch.parent else None)
        place = f"/branches/{branch.id}"
        assert {each["name"] for each in self.request("GET", f"{place}/roles")["roles"]} == branch.passwords.keys()
        databases = self.request("GET", f"{place}/databases")["databases"]
        assert {each["name"]: each["owner_name"] for each in databases} == branch.databases
        for role, password in branch.passwords.items():
            revealed = self.request("GET", f"{place}/roles/{quote(role, safe='')}/reveal_password")
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
