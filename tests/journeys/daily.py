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

from cli.program import Program, until
from journeys.served import ADDRESS, PATIENCE

Json = dict[str, Any]
OWNER, DATABASE = "neondb_owner", "neondb"
_DATABASES = """
    select datname::text, pg_get_userbyid(datdba)::text from pg_database
     where datname not in ('postgres', 'template0', 'template1')
"""


@dataclass(eq=False)
class Branch:
    """What must be true of a branch."""

    id: str
    name: str
    parent: "Branch | None"
    passwords: dict[str, str]
    databases: dict[str, str]  # name → owner
    rows: set[int]
    is_protected: bool = False
    is_default: bool = False
    endpoint: str | None = None
    is_disabled: bool = False
    is_gone: bool = False

    @property
    def can_be_entered(self) -> bool:
        return self.endpoint is not None and not self.is_disabled


@dataclass
class Daily:
    bough: Program
    api: httpx2.Client
    project: Json
    port: int
    branches: list[Branch] = field(default_factory=list)
    kills: bool = False  # control dies as soon as it has answered

    @classmethod
    def begin(cls, bough: Program, api: httpx2.Client, port: int) -> "Daily":
        made = api.post("/projects", json={"project": {"name": "daily"}}).raise_for_status().json()
        one = cls(bough, api, made["project"], port)
        root = Branch(
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
        one.settled(made["operations"])
        one.sql(root, "create table if not exists t (n int primary key)")
        return one

    def ask(self, method: str, path: str, body: Json | None = None, *, expected: int = 200) -> Json:
        """The answer, which must be this one, when its work is over; control may die meanwhile."""
        answer = self.api.request(method, f"/projects/{self.project['id']}{path}", json=body)
        assert answer.status_code == expected, f"{method} {path} {body}: {answer.status_code} {answer.text}"
        shown: Json = answer.json() if answer.content else {}
        if self.kills and method != "GET":
            self._kill_control()
        self.settled(shown.get("operations", []))
        return shown

    def settled(self, operations: list[Json]) -> None:
        for operation in operations:
            shown = until(partial(self._ended, operation["id"]), PATIENCE)
            assert shown["status"] in ("finished", "skipped"), shown

    def _ended(self, operation_id: str) -> Json | None:
        shown: Json = self.api.get(f"/projects/{self.project['id']}/operations/{operation_id}").json()["operation"]
        return None if shown["status"] in ("scheduling", "running", "cancelling") else shown

    def _kill_control(self) -> None:
        pid = self.bough.status()["control_pid"]
        os.kill(pid, signal.SIGKILL)
        self.bough.running_again(pid)
        self.kills = False

    def sql(self, branch: Branch, statement: str, role: str = OWNER, database: str = DATABASE) -> list[tuple[Any, ...]]:
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
            connect_timeout=PATIENCE,
        ) as session:
            cursor = session.execute(statement)
            return cursor.fetchall() if cursor.description else []

    @property
    def living(self) -> list[Branch]:
        return [branch for branch in self.branches if not branch.is_gone]

    def has_children(self, branch: Branch) -> bool:
        return any(each.parent is branch for each in self.living)

    def compare(self) -> None:
        """What the API lists and what Postgres has are what the model says."""
        listed = self.ask("GET", "/branches?include_deleted=true")["branches"]
        assert {each["id"] for each in listed} == {branch.id for branch in self.branches}
        shown = {each["id"]: each for each in self.ask("GET", "/branches")["branches"]}
        assert shown.keys() == {branch.id for branch in self.living}
        endpoints = {each["id"]: each for each in self.ask("GET", "/endpoints")["endpoints"]}
        assert endpoints.keys() == {branch.endpoint for branch in self.living if branch.endpoint}
        for branch in self.living:
            self._compare_one(branch, shown[branch.id], endpoints)

    def _compare_one(self, branch: Branch, shown: Json, endpoints: dict[str, Json]) -> None:
        assert (shown["name"], shown["protected"], shown["default"], shown["current_state"]) == (
            branch.name,
            branch.is_protected,
            branch.is_default,
            "ready",
        )
        assert shown.get("parent_id") == (branch.parent.id if branch.parent else None)
        place = f"/branches/{branch.id}"
        assert {each["name"] for each in self.ask("GET", f"{place}/roles")["roles"]} == branch.passwords.keys()
        databases = self.ask("GET", f"{place}/databases")["databases"]
        assert {each["name"]: each["owner_name"] for each in databases} == branch.databases
        for role, password in branch.passwords.items():
            revealed = self.ask("GET", f"{place}/roles/{quote(role, safe='')}/reveal_password")
            assert revealed == {"password": password}
        if branch.endpoint:
            assert endpoints[branch.endpoint]["disabled"] == branch.is_disabled
        if branch.can_be_entered:
            assert {row[0] for row in self.sql(branch, "select n from t")} == branch.rows
            roles = self.sql(branch, "select rolname::text from pg_roles where rolname !~ '^(pg|bough)_'")
            assert {row[0] for row in roles} == branch.passwords.keys()
            assert dict(self.sql(branch, _DATABASES)) == branch.databases
            for role in branch.passwords:
                assert self.sql(branch, "select current_user::text", role) == [(role,)]
