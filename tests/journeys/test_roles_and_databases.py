"""Roles and databases over the API, as clients at the gateway and SQL in the compute see them."""

from functools import partial
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from journeys.served_project import ADDRESS, ServedProject, fetch_value
from support.program import wait_until

HOSTILE = ["plain", "o'wn \"er", "a.b-c", "ünï cödé 🌿", "x" * 63, "%s/../$$", "\\' or 1=1; --", "select"]


class Branch:
    """The served project's branch, by the API."""

    def __init__(self, one: ServedProject) -> None:
        self.one = one
        self.project = f"/projects/{one.creation_response['project']['id']}"
        self.path = f"{self.project}/branches/{one.creation_response['branch']['id']}"

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """An answer, when its work is over."""
        answer = self.one.api.request(method, f"{self.path}{path}", json=body).raise_for_status()
        shown: dict[str, Any] = answer.json() if answer.content else {}
        for operation in shown.get("operations", []):
            assert wait_until(partial(self._end, operation["id"])) == "finished"
        return shown

    def _end(self, operation_id: str) -> str | None:
        shown = self.one.api.get(f"{self.project}/operations/{operation_id}").raise_for_status().json()["operation"]
        return None if shown["status"] in ("scheduling", "running") else str(shown["status"])

    async def enters(self, role: str, password: str, database: str = "neondb") -> str | None:
        """What a client is told, or None when it is let in."""
        host = self.one.creation_response["connection_uris"][0]["connection_parameters"]["host"].partition(":")[0]
        try:
            session = await psycopg.AsyncConnection.connect(
                host=host,
                hostaddr=ADDRESS,
                port=self.one.gateway_port,
                user=role,
                password=password,
                dbname=database,
                sslmode="require",
            )
        except psycopg.OperationalError as error:
            return str(error)
        async with session:
            assert await fetch_value(session, "select current_user::text") == role
            assert await fetch_value(session, "select current_database()::text") == database
        return None


@pytest.fixture
def branch(served_project: ServedProject) -> Branch:
    return Branch(served_project)


@pytest.mark.parametrize("state", ["awake", "asleep"])
async def test_names_of_every_kind_are_made_used_and_dropped(
    served_project: ServedProject, branch: Branch, state: str
) -> None:
    if state == "asleep":
        served_project.suspend()
    for name in HOSTILE[:: 1 if state == "awake" else 3]:
        role = branch.ask("POST", "/roles", {"role": {"name": name}})["role"]
        branch.ask("POST", "/databases", {"database": {"name": name, "owner_name": name}})
        if state == "asleep":
            assert served_project.get_state() == "idle", "a change wakes nobody"
        assert await branch.enters(name, role["password"], name) is None
        if state == "asleep":
            served_project.suspend()
        place = quote(name, safe="")
        renamed = branch.ask("PATCH", f"/databases/{place}", {"database": {"name": f"{name[:60]}_2"}})["database"]
        branch.ask(
            "PATCH", f"/databases/{quote(renamed['name'], safe='')}", {"database": {"owner_name": "neondb_owner"}}
        )
        branch.ask("DELETE", f"/roles/{place}")
        assert "password authentication failed" in str(await branch.enters(name, role["password"]))
        branch.ask("DELETE", f"/databases/{quote(renamed['name'], safe='')}")
        if state == "asleep":
            served_project.suspend()
    assert [each["name"] for each in branch.ask("GET", "/roles")["roles"]] == ["neondb_owner"]
    assert [each["name"] for each in branch.ask("GET", "/databases")["databases"]] == ["neondb"]
    assert await served_project.fetch_value("select count(*) from pg_roles where rolname !~ '^(pg|bough)_'") == 1


async def test_a_password_that_is_reset_counts_at_once_and_the_old_one_does_not(
    served_project: ServedProject, branch: Branch
) -> None:
    old = served_project.creation_response["roles"][0]["password"]
    assert await branch.enters("neondb_owner", old) is None
    for state in ("awake", "asleep"):
        if state == "asleep":
            served_project.suspend()
        new = branch.ask("POST", "/roles/neondb_owner/reset_password")["role"]["password"]
        assert "password authentication failed" in str(await branch.enters("neondb_owner", old))
        assert await branch.enters("neondb_owner", new) is None
        assert branch.ask("GET", "/roles/neondb_owner/reveal_password") == {"password": new}
        old = new


async def test_a_database_is_dropped_and_renamed_under_its_clients(
    served_project: ServedProject, branch: Branch
) -> None:
    branch.ask("POST", "/databases", {"database": {"name": "busy", "owner_name": "neondb_owner"}})
    uri = served_project.uri.replace("/neondb?", "/busy?")
    session = await served_project.connect_to(uri)
    branch.ask("PATCH", "/databases/busy", {"database": {"name": "busier"}})
    with pytest.raises(psycopg.OperationalError):
        await session.execute("select 1")
    other = await served_project.connect_to(uri.replace("/busy?", "/busier?"))
    await other.execute("create table t as select 1 as n")
    branch.ask("DELETE", "/databases/busier")
    with pytest.raises(psycopg.OperationalError):
        await other.execute("select 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        await served_project.connect_to(uri.replace("/busy?", "/busier?"))
    for each in (session, other):
        await each.close()


async def test_what_sql_makes_shows_up_and_what_postgres_refuses_leaves_no_row(
    served_project: ServedProject, branch: Branch
) -> None:
    async with await served_project.connect_to(served_project.uri) as session:
        await session.execute("create role made_with_sql login")
        await session.execute("create role a_group nologin")
        await session.execute("create database also_made")
        await session.execute("alter database also_made rename to made")
    wait_until(lambda: "made" in [each["name"] for each in branch.ask("GET", "/databases")["databases"]])
    names = [each["name"] for each in branch.ask("GET", "/roles")["roles"]]
    assert names == ["a_group", "made_with_sql", "neondb_owner"]
    # A session that holds a lock on the template keeps a database from being made for a while, not for good.
    answer = served_project.api.post(
        f"{branch.path}/databases", json={"database": {"name": "x", "owner_name": "nobody"}}
    )
    assert (answer.status_code, "no role 'nobody'" in answer.json()["message"]) == (400, True)
    assert "made" in [each["name"] for each in branch.ask("GET", "/databases")["databases"]]


async def test_what_a_role_owned_is_its_databases_owners_then(served_project: ServedProject, branch: Branch) -> None:
    role = branch.ask("POST", "/roles", {"role": {"name": "app"}})["role"]
    async with await served_project.connect_to(served_project.uri) as session:
        await session.execute("grant create on schema public to app")
    host_uri = served_project.uri.replace("neondb_owner:", "app:").replace(
        served_project.creation_response["roles"][0]["password"], role["password"]
    )
    async with await served_project.connect_to(host_uri) as session:
        await session.execute("create table things as select 7 as n")
    branch.ask("DELETE", "/roles/app")
    assert await served_project.fetch_value("select n from things") == 7
    assert (
        await served_project.fetch_value("select tableowner::text from pg_tables where tablename = 'things'")
        == "neondb_owner"
    )
