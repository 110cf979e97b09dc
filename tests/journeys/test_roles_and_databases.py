"""Changes of roles and databases through the API and SQL, as clients at the gateway and Postgres see them."""

from functools import partial
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from journeys.served_project import ADDRESS, ServedProject, fetch_value
from support.program import wait_until

UNUSUAL_NAMES = ["plain", "o'wn \"er", "a.b-c", "ünï cödé 🌿", "x" * 63, "%s/../$$", "\\' or 1=1; --", "select"]


class BranchClient:
    """Calls the API for the branch of the served project."""

    def __init__(self, project: ServedProject) -> None:
        self.project = project
        self.project_path = project.project_path
        self.path = f"{self.project_path}/branches/{project.creation_response['branch']['id']}"

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Sends a request and waits until its operations have finished."""
        response = self.project.api.request(method, f"{self.path}{path}", json=body).raise_for_status()
        result: dict[str, Any] = response.json() if response.content else {}
        for operation in result.get("operations", []):
            assert wait_until(partial(self._get_end_status, operation["id"])) == "finished"
        return result

    def _get_end_status(self, operation_id: str) -> str | None:
        operation = (
            self.project.api.get(f"{self.project_path}/operations/{operation_id}")
            .raise_for_status()
            .json()["operation"]
        )
        return None if operation["status"] in ("scheduling", "running") else str(operation["status"])

    async def try_connect(self, role: str, password: str, database: str = "neondb") -> str | None:
        """Connects a client. Returns the error message, or None if the login succeeds."""
        host = self.project.creation_response["connection_uris"][0]["connection_parameters"]["host"].partition(":")[0]
        try:
            session = await psycopg.AsyncConnection.connect(
                host=host,
                hostaddr=ADDRESS,
                port=self.project.gateway_port,
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
def branch(served_project: ServedProject) -> BranchClient:
    return BranchClient(served_project)


@pytest.mark.parametrize("state", ["awake", "asleep"])
async def test_names_of_every_kind_are_made_used_and_dropped(
    served_project: ServedProject, branch: BranchClient, state: str
) -> None:
    if state == "asleep":
        served_project.suspend()
    for name in UNUSUAL_NAMES[:: 1 if state == "awake" else 3]:
        role = branch.request("POST", "/roles", {"role": {"name": name}})["role"]
        branch.request("POST", "/databases", {"database": {"name": name, "owner_name": name}})
        if state == "asleep":
            assert served_project.get_state() == "idle", "a change does not wake the compute"
        assert await branch.try_connect(name, role["password"], name) is None
        if state == "asleep":
            served_project.suspend()
        quoted_name = quote(name, safe="")
        renamed = branch.request("PATCH", f"/databases/{quoted_name}", {"database": {"name": f"{name[:60]}_2"}})[
            "database"
        ]
        branch.request(
            "PATCH", f"/databases/{quote(renamed['name'], safe='')}", {"database": {"owner_name": "neondb_owner"}}
        )
        branch.request("DELETE", f"/roles/{quoted_name}")
        assert "password authentication failed" in str(await branch.try_connect(name, role["password"]))
        branch.request("DELETE", f"/databases/{quote(renamed['name'], safe='')}")
        if state == "asleep":
            served_project.suspend()
    assert [each["name"] for each in branch.request("GET", "/roles")["roles"]] == ["neondb_owner"]
    assert [each["name"] for each in branch.request("GET", "/databases")["databases"]] == ["neondb"]
    assert await served_project.fetch_value("select count(*) from pg_roles where rolname !~ '^(pg|bough)_'") == 1


async def test_a_password_that_is_reset_counts_at_once_and_the_old_one_does_not(
    served_project: ServedProject, branch: BranchClient
) -> None:
    old = served_project.creation_response["roles"][0]["password"]
    assert await branch.try_connect("neondb_owner", old) is None
    for state in ("awake", "asleep"):
        if state == "asleep":
            served_project.suspend()
        new = branch.request("POST", "/roles/neondb_owner/reset_password")["role"]["password"]
        assert "password authentication failed" in str(await branch.try_connect("neondb_owner", old))
        assert await branch.try_connect("neondb_owner", new) is None
        assert branch.request("GET", "/roles/neondb_owner/reveal_password") == {"password": new}
        old = new


async def test_a_database_is_dropped_and_renamed_under_its_clients(
    served_project: ServedProject, branch: BranchClient
) -> None:
    branch.request("POST", "/databases", {"database": {"name": "busy", "owner_name": "neondb_owner"}})
    uri = served_project.uri.replace("/neondb?", "/busy?")
    session = await served_project.connect_to(uri)
    branch.request("PATCH", "/databases/busy", {"database": {"name": "busier"}})
    with pytest.raises(psycopg.OperationalError):
        await session.execute("select 1")
    other_session = await served_project.connect_to(uri.replace("/busy?", "/busier?"))
    await other_session.execute("create table t as select 1 as n")
    branch.request("DELETE", "/databases/busier")
    with pytest.raises(psycopg.OperationalError):
        await other_session.execute("select 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        await served_project.connect_to(uri.replace("/busy?", "/busier?"))
    for each in (session, other_session):
        await each.close()


async def test_what_sql_makes_shows_up_and_what_postgres_refuses_leaves_no_row(
    served_project: ServedProject, branch: BranchClient
) -> None:
    async with await served_project.connect_to(served_project.uri) as session:
        await session.execute("create role made_with_sql login")
        await session.execute("create role a_group nologin")
        await session.execute("create database also_made")
        await session.execute("alter database also_made rename to made")
    wait_until(lambda: "made" in [each["name"] for each in branch.request("GET", "/databases")["databases"]])
    names = [each["name"] for each in branch.request("GET", "/roles")["roles"]]
    assert names == ["a_group", "made_with_sql", "neondb_owner"]
    response = served_project.api.post(
        f"{branch.path}/databases", json={"database": {"name": "x", "owner_name": "nobody"}}
    )
    assert (response.status_code, "no role 'nobody'" in response.json()["message"]) == (400, True)
    assert "made" in [each["name"] for each in branch.request("GET", "/databases")["databases"]]


async def test_what_a_role_owned_is_its_databases_owners_then(
    served_project: ServedProject, branch: BranchClient
) -> None:
    role = branch.request("POST", "/roles", {"role": {"name": "app"}})["role"]
    async with await served_project.connect_to(served_project.uri) as session:
        await session.execute("grant create on schema public to app")
    app_uri = served_project.uri.replace("neondb_owner:", "app:").replace(
        served_project.creation_response["roles"][0]["password"], role["password"]
    )
    async with await served_project.connect_to(app_uri) as session:
        await session.execute("create table things as select 7 as n")
    branch.request("DELETE", "/roles/app")
    assert await served_project.fetch_value("select n from things") == 7
    assert (
        await served_project.fetch_value("select tableowner::text from pg_tables where tablename = 'things'")
        == "neondb_owner"
    )
