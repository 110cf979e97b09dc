"""The routes of statements, with a real compute, and the libraries that a project can preload."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import asyncpg
import httpx2
import pytest
import pytest_asyncio

from bough.ids import EndpointId
from bough.postgres import ADMIN_ROLE, statement_statistics
from bough.store.audit import AuditQuery
from compat.audit_checks import list_audit_lines
from support.api_app import ApiApp, open_api_app
from support.api_client import Caller, create_caller

SECRET = "a_text_that_only_members_see"


@dataclass(frozen=True, slots=True)
class Running:
    """An endpoint whose compute runs."""

    caller: Caller
    project_id: str
    endpoint_id: str

    @property
    def path(self) -> str:
        return f"/bough/projects/{self.project_id}/endpoints/{self.endpoint_id}"

    async def get(self, name: str, status: int = 200, **query: Any) -> dict[str, Any]:
        return _checked(await self.caller.client.get(f"{self.path}/{name}", params=query), status)

    async def signal(self, handle: str, verb: str = "cancel", status: int = 200) -> dict[str, Any]:
        return _checked(await self.caller.client.post(f"{self.path}/statements/{handle}/{verb}"), status)

    def connect(self, role: str = "neondb_owner", database: str = "neondb") -> Any:
        return self.caller.api_app.platform.connect(self.endpoint_id, role, database)


def _checked(response: httpx2.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    body: dict[str, Any] = response.json()
    return body


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running() -> AsyncIterator[Running]:
    """On a platform of its own: in the shared one, the operations of all other tests wait."""
    async with open_api_app() as own_app:
        caller = await create_caller(own_app)
        created = await caller.create_project()
        await own_app.platform.run_operations()
        yield Running(caller, created["project"]["id"], created["endpoints"][0]["id"])
        await caller.client.aclose()


async def _wait_for(read: Callable[[], Awaitable[Any]]) -> Any:
    while not (value := await read()):  # noqa: ASYNC110  the server has no event for this
        await asyncio.sleep(0.01)
    return value


async def test_the_most_expensive_statements_are_listed_with_what_they_cost(running: Running) -> None:
    async with running.connect() as db:
        for number in range(2):
            await db.execute(f"select {number} as {SECRET}")
    body = await running.get(
        "statement_statistics", limit=200, order_by="calls", database="neondb", role="neondb_owner"
    )
    [counted] = [each for each in body["statements"] if SECRET in each["query"]]
    assert counted["query"] == f"select $1 as {SECRET}"
    assert (counted["calls"], counted["rows"], counted["is_truncated"], counted["is_top_level"]) == (2, 2, False, True)
    assert isinstance(counted["query_id"], str)
    assert body["since"] <= counted["since"]
    assert (await running.get("statement_statistics", database="none"))["statements"] == []
    assert len((await running.get("statement_statistics", limit=1))["statements"]) == 1


@pytest.mark.parametrize(
    "query", [{"limit": 0}, {"limit": 201}, {"order_by": "query"}, {"database": "\0"}, {"role": "r" * 64}]
)
async def test_impossible_questions_are_refused(running: Running, query: dict[str, Any]) -> None:
    await running.get("statement_statistics", 400, **query)


async def test_a_reset_is_in_the_audit_log_and_no_text_is_logged(running: Running, log_output: Any) -> None:
    async with running.connect() as db:
        await db.execute(f"select 1 as {SECRET}")
        await db.execute(f"begin; select 1 as {SECRET}")
        assert SECRET in str((await running.get("statements"))["statements"])
        assert SECRET in str(await running.get("statement_statistics"))
    _checked(await running.caller.client.delete(f"{running.path}/statement_statistics"), 200)
    assert SECRET not in str(await running.get("statement_statistics"))
    lines = await list_audit_lines(running.caller.api_app, AuditQuery(action="reset_statement_statistics"))
    assert [(line.project_id, line.resource) for line in lines] == [(running.project_id, running.endpoint_id)]
    assert SECRET not in log_output.getvalue()


async def test_a_statement_is_cancelled_once(running: Running) -> None:
    async with running.connect() as db:
        sleep = asyncio.create_task(db.execute("select pg_catalog.pg_sleep(600)"))
        [listed] = await _wait_for(lambda: _list(running))
        assert (listed["state"], listed["role"], listed["database"]) == ("active", "neondb_owner", "neondb")
        assert listed["blocked_by"] == []
        handle = listed["handle"]
        assert await running.signal(handle) == {"handle": handle}
        with pytest.raises(asyncpg.QueryCanceledError):
            await sleep
        for verb in ("cancel", "terminate"):
            assert "does not run any more" in (await running.signal(handle, verb, 404))["message"]
        assert await db.fetchval("select 1") == 1
    lines = await list_audit_lines(running.caller.api_app, AuditQuery(action="cancel_statement"))
    assert [line.resource for line in lines if line.project_id == running.project_id] == [
        f"{running.endpoint_id}/{handle}"
    ]


async def test_an_open_transaction_is_terminated(running: Running) -> None:
    async with running.connect() as db:
        await db.execute("begin")
        [listed] = await _wait_for(lambda: _list(running))
        assert "terminate it" in (await running.signal(listed["handle"], status=422))["message"]
        await running.signal(listed["handle"], "terminate")
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)):
            await db.execute("commit")


async def _list(running: Running) -> Any:
    return (await running.get("statements"))["statements"]


@pytest.mark.parametrize("handle", ["none", "1-1", "1-1-g"])
async def test_what_is_no_handle_is_refused(running: Running, handle: str) -> None:
    assert "handle" in (await running.signal(handle, status=400))["message"]


async def test_a_suspended_compute_is_not_woken(api_app: ApiApp, caller: Caller) -> None:
    created = await caller.create_project()
    await caller.finish_operations(created["project"]["id"])
    asleep = Running(caller, created["project"]["id"], created["endpoints"][0]["id"])
    for name in ("statement_statistics", "statements"):
        assert "does not run" in (await asleep.get(name, 412))["message"]
    await asleep.signal("1-1-1", status=412)
    assert (await caller.client.delete(f"{asleep.path}/statement_statistics")).status_code == 412
    assert await api_app.platform.engine.find_address(EndpointId(asleep.endpoint_id)) is None
    actions = {line.action for line in await list_audit_lines(api_app) if line.project_id == asleep.project_id}
    assert actions == {"create_project"}


async def test_a_replica_reads_what_its_primary_creates(running: Running) -> None:
    platform, client = running.caller.api_app.platform, running.caller.client
    async with running.connect(ADMIN_ROLE, "postgres") as admin:
        await admin.execute(f"drop schema {statement_statistics.SCHEMA} cascade")
    branch_id = (await client.get(f"/projects/{running.project_id}/branches")).json()["branches"][0]["id"]
    body = {"endpoint": {"branch_id": branch_id, "type": "read_only"}}
    created = _checked(await client.post(f"/projects/{running.project_id}/endpoints", json=body), 201)
    await platform.run_operations()
    replica = Running(running.caller, running.project_id, created["endpoint"]["id"])
    async with replica.connect() as db:
        await db.execute(f"select 1 as {SECRET}")
    assert f"select $1 as {SECRET}" in str(await replica.get("statement_statistics"))


async def test_available_libraries_are_those_of_the_build(running: Running) -> None:
    response = await running.caller.client.get(f"/projects/{running.project_id}/available_preload_libraries")
    libraries = {each["library_name"]: each for each in _checked(response, 200)["libraries"]}
    assert list(libraries) == sorted(libraries)
    assert [name for name, each in libraries.items() if each["is_default"]] == ["pg_stat_statements"]
    assert "timescaledb" not in libraries, "the operator has not added it"
    assert not any(each["is_experimental"] for each in libraries.values())
    assert libraries["auto_explain"]["version"].startswith("17.")
    assert libraries["pg_stat_statements"]["version"] == "1.11"
    assert libraries["pg_cron"]["description"] == "runs statements at set times"


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ({"use_defaults": True, "enabled_libraries": ["neon", "pg_prewarm, auto_explain"]}, 200),
        ({"use_defaults": False, "enabled_libraries": []}, 200),
        ({"enabled_libraries": ["pg_prewarm,"]}, 400),
        ({"enabled_libraries": [","]}, 400),
        ({"enabled_libraries": [""]}, 400),
        ({"enabled_libraries": ["../pg_prewarm"]}, 400),
        ({"enabled_libraries": ["pg_prewarm,passwordcheck"]}, 400),
        ({"enabled_libraries": ["pg_prewarm"] * 101}, 400),
        ({"use_defaults": "yes"}, 400),
    ],
)
async def test_which_lists_are_accepted(caller: Caller, setting: dict[str, Any], expected: int) -> None:
    project_id = await caller.create_ready_project()
    change = {"project": {"settings": {"preload_libraries": setting}}}
    response = await caller.client.patch(f"/projects/{project_id}", json=change)
    assert response.status_code == expected, response.text
    stored = (await caller.get_project(project_id))["settings"].get("preload_libraries")
    assert stored == (setting if expected == 200 else None)
    assert "operations" not in response.json() or response.json()["operations"] == []
