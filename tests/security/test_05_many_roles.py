"""Rule 5: control reads and writes a limited number of roles, however many a tenant creates with SQL."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bough.chunks import CHUNK_SIZE
from bough.config import Settings
from bough.domain.role import Role
from bough.engine.local.computes import query_results
from bough.engine.port import MAX_LISTED, BranchContents
from bough.ids import BranchId, EndpointId
from bough.operations import contents_inspection, contents_sync
from bough.store import roles as role_rows
from bough.store.queries import Queries
from bough.tasks.read_contents import ReadContents
from support.platform import API, Platform, open_platform
from support.postgres import PostgresServer
from support.stores import BACKENDS, EVERYDAY_BACKENDS

LIMIT = 20
PAGE = 500  # rows that are fetched at once
# Each new role is locked until the transaction ends, and a server can hold a few thousand locks.
CREATE_ROLES = """
    do $$ begin
        for n in 1..{} loop
            execute pg_catalog.format('create role r%s login', n);
            if n % 1000 = 0 then commit; end if;
        end loop;
    end $$
"""
SET_PASSWORD = "alter role {} password 'a password of some length'"


both_stores = pytest.mark.parametrize("platform", BACKENDS, indirect=True)
sqlite_every_day = pytest.mark.parametrize("platform", EVERYDAY_BACKENDS, indirect=True)


@pytest.fixture
async def platform(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> AsyncIterator[Platform]:
    """A platform whose operator has a plan with few roles."""
    plans = Settings().model_dump()["plans"]
    plans["unlimited"] |= {"roles": LIMIT, "databases": LIMIT}
    changes = {} if request.param == "sqlite" else {"store_url": await postgres_server.create_store_database()}
    async with open_platform(plans=plans, **changes) as opened:
        yield opened


@pytest.fixture
def count(is_long_run: bool) -> int:
    return 20_000 if is_long_run else 1500


def make_task(platform: Platform, plans: contents_inspection.PlanLookup | None = None) -> ReadContents:
    services = platform.services
    return ReadContents(
        platform.store, platform.engine, services.queue, services.activity, plans or platform.settings.plan
    )


async def read_roles(platform: Platform, created: dict[str, Any]) -> list[Role]:
    async with platform.store.read() as rows:
        return await rows.roles.list_in_branch(BranchId(created["branch"]["id"]))


async def can_log_in(platform: Platform, created: dict[str, Any], role: str) -> bool:
    access = await platform.inner.gateway_api.gateway_access.resolve(EndpointId(created["endpoints"][0]["id"]), role)
    return access.is_known


class WorkRecord:
    """Records what was read and written, and the most calls in one iteration of the event loop."""

    def __init__(self) -> None:
        self.contents_read: list[BranchContents] = []
        self.batches: list[int] = []
        self.transactions = 0
        self.calls: Counter[str] = Counter()
        self.max_calls: Counter[str] = Counter()  # in one iteration of the event loop

    def count_calls(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def count(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            self.max_calls |= self.calls
            return function(*args, **kwargs)

        return count

    async def _reset_each_iteration(self) -> None:
        while True:
            self.calls.clear()
            await asyncio.sleep(0)

    @contextmanager
    def watch(self, platform: Platform, patch: pytest.MonkeyPatch) -> Iterator[None]:
        read_contents, transaction = platform.engine.read_compute_contents, platform.store.transaction
        run_many = Queries._run_many

        async def record_contents(*args: Any) -> BranchContents | None:
            contents = await read_contents(*args)
            self.contents_read += [contents] if contents else []
            return contents

        async def record_batch(queries: Queries, statement: Any, values: Any) -> None:
            self.batches.append(len(values))
            await run_many(queries, statement, values)

        def record_transaction(**kwargs: Any) -> Any:
            self.transactions += 1
            return transaction(**kwargs)

        with patch.context() as patched:
            patched.setattr(platform.engine, "read_compute_contents", record_contents)
            patched.setattr(platform.store, "transaction", record_transaction)
            patched.setattr(Queries, "_run_many", record_batch)
            for module, name in (
                (query_results, "parse_role"),
                (contents_sync, "_new_role"),
                (contents_sync, "to_observed_role"),
                (contents_inspection, "to_observed_role"),
                (role_rows, "from_row"),
            ):
                patched.setattr(module, name, self.count_calls(name, getattr(module, name)))
            reset_task = asyncio.create_task(self._reset_each_iteration())
            yield
            reset_task.cancel()


@both_stores
async def test_a_plan_limits_the_roles_that_sql_makes(
    platform: Platform, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = await platform.create_ready_project()
    await platform.query(created, CREATE_ROLES.format(count))
    last = f"r{count}"
    for role in ("r1", last):
        await platform.query(created, SET_PASSWORD.format(role))
    task, record = make_task(platform), WorkRecord()
    with record.watch(platform, monkeypatch):
        await task.run()
    [contents] = record.contents_read
    assert (len(contents.roles), contents.unlisted_roles) == (LIMIT, count + 1 - LIMIT)
    names = [role.name for role in await read_roles(platform, created)]
    assert set(names) == {"neondb_owner", *(f"r{number}" for number in range(1, LIMIT))}, (
        "the oldest roles must be kept"
    )
    assert sum(record.batches) == LIMIT - 1, "number of rows written"
    assert await can_log_in(platform, created, "r1")
    assert not await can_log_in(platform, created, last)

    second_record = WorkRecord()
    platform.services.activity.mark_unread([EndpointId(created["endpoints"][0]["id"])])
    with second_record.watch(platform, monkeypatch):
        await task.run()
    assert len(second_record.contents_read) == 1
    assert (second_record.batches, second_record.transactions) == ([], 0), "unchanged contents must not be written"

    await _check_that_api_roles_come_first(platform, created, task)


async def _check_that_api_roles_come_first(platform: Platform, created: dict[str, Any], task: ReadContents) -> None:
    path = f"{API}/projects/{created['project']['id']}/branches/{created['branch']['id']}/roles"
    body = {"role": {"name": "mine"}}
    response = await platform.client.post(path, json=body)
    assert (response.status_code, response.json()["code"]) == (422, "ROLES_LIMIT_EXCEEDED")
    assert (await platform.client.delete(f"{path}/r7")).status_code == 200
    await platform.run_operations()
    assert (await platform.client.post(path, json=body)).status_code == 201
    await platform.run_operations()
    platform.services.activity.mark_unread([EndpointId(created["endpoints"][0]["id"])])
    await task.run()
    names = {role.name for role in await read_roles(platform, created)}
    assert "mine" in names, "a role of the API must be kept although it is the newest in Postgres"
    assert len(names) == LIMIT
    assert await can_log_in(platform, created, "mine")


@sqlite_every_day
async def test_the_event_loop_never_works_on_one_list_for_long(
    platform: Platform, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the plan allows, the platform reads and stores at most MAX_LISTED roles."""
    created = await platform.create_ready_project()
    await platform.query(created, CREATE_ROLES.format(count))
    unlimited = Settings().plan("unlimited")
    task, record = make_task(platform, lambda _: unlimited), WorkRecord()
    with record.watch(platform, monkeypatch):
        await task.run()
        platform.services.activity.mark_unread([EndpointId(created["endpoints"][0]["id"])])
        await task.run()
    assert len(await read_roles(platform, created)) == min(count + 1, MAX_LISTED)
    assert {
        name: calls for name, calls in record.max_calls.items() if calls > (PAGE if name == "from_row" else CHUNK_SIZE)
    } == {}
    assert max(record.batches) <= MAX_LISTED


@sqlite_every_day
async def test_databases_are_limited_too(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Settings().plan("unlimited").model_copy(update={"databases": 2})
    created = await platform.create_ready_project()
    for number in range(4):
        await platform.query(created, f"create database d{number} strategy file_copy")
    record = WorkRecord()
    with record.watch(platform, monkeypatch):
        await make_task(platform, lambda _: plan).run()
    [contents] = record.contents_read
    assert ([database.name for database in contents.databases], contents.unlisted_databases) == (["d0", "neondb"], 3)
