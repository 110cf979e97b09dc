"""Row 5: however many roles a tenant makes with SQL, control reads, writes and works on no more than it allows."""

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
from bough.operations import contents_sync
from bough.store import roles as role_rows
from bough.store.queries import Queries
from bough.tasks.read_contents import ReadContents
from support.platform import API, Platform, open_platform
from support.postgres import PostgresServer
from support.stores import BACKENDS, EVERYDAY_BACKENDS

LIMIT = 20
PAGE = 500  # rows that are read in one go
# A role that is made is locked until its transaction ends, and a server has room for some thousand locks.
MAKE = """
    do $$ begin
        for n in 1..{} loop
            execute pg_catalog.format('create role r%s login', n);
            if n % 1000 = 0 then commit; end if;
        end loop;
    end $$
"""
PASSWORD = "alter role {} password 'a password of some length'"


both_stores = pytest.mark.parametrize("platform", BACKENDS, indirect=True)
sqlite_every_day = pytest.mark.parametrize("platform", EVERYDAY_BACKENDS, indirect=True)


@pytest.fixture
async def platform(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> AsyncIterator[Platform]:
    """Its operator's plan has few roles."""
    plans = Settings().model_dump()["plans"]
    plans["unlimited"] |= {"roles": LIMIT, "databases": LIMIT}
    changes = {} if request.param == "sqlite" else {"store_url": await postgres_server.create_store_database()}
    async with open_platform(plans=plans, **changes) as made:
        yield made


@pytest.fixture
def count(is_long_run: bool) -> int:
    return 20_000 if is_long_run else 1500


def reading(platform: Platform, plans: contents_sync.PlanLookup | None = None) -> ReadContents:
    parts = platform.services
    return ReadContents(platform.store, platform.engine, parts.queue, parts.activity, plans or platform.settings.plan)


async def known(platform: Platform, made: dict[str, Any]) -> list[Role]:
    async with platform.store.read() as rows:
        return await rows.roles.list_in_branch(BranchId(made["branch"]["id"]))


async def can_enter(platform: Platform, made: dict[str, Any], role: str) -> bool:
    found = await platform.inner.gateway_api.gateway_access.resolve(EndpointId(made["endpoints"][0]["id"]), role)
    return found.is_known


class Work:
    """What was read and written, and how much at one go."""

    def __init__(self) -> None:
        self.told: list[BranchContents] = []
        self.batches: list[int] = []
        self.transactions = 0
        self.turn: Counter[str] = Counter()
        self.most: Counter[str] = Counter()  # of one turn of the event loop

    def counted(self, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def count(*given: Any, **named: Any) -> Any:
            self.turn[what] += 1
            self.most |= self.turn
            return function(*given, **named)

        return count

    async def turns(self) -> None:
        while True:
            self.turn.clear()
            await asyncio.sleep(0)

    @contextmanager
    def watching(self, platform: Platform, patch: pytest.MonkeyPatch) -> Iterator[None]:
        engine_contents, transaction = platform.engine.read_compute_contents, platform.store.transaction
        run_many = Queries._run_many

        async def told(*given: Any) -> BranchContents | None:
            found = await engine_contents(*given)
            self.told += [found] if found else []
            return found

        async def written(queries: Queries, statement: Any, values: Any) -> None:
            self.batches.append(len(values))
            await run_many(queries, statement, values)

        def begun(**given: Any) -> Any:
            self.transactions += 1
            return transaction(**given)

        with patch.context() as during:
            during.setattr(platform.engine, "read_compute_contents", told)
            during.setattr(platform.store, "transaction", begun)
            during.setattr(Queries, "_run_many", written)
            for module, name in (
                (query_results, "parse_role"),
                (contents_sync, "_new_role"),
                (contents_sync, "_role_as_actual"),
                (role_rows, "from_row"),
            ):
                during.setattr(module, name, self.counted(name, getattr(module, name)))
            ticking = asyncio.create_task(self.turns())
            yield
            ticking.cancel()


@both_stores
async def test_a_plan_limits_the_roles_that_sql_makes(
    platform: Platform, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await platform.create_ready_project()
    await platform.query(made, MAKE.format(count))
    last = f"r{count}"
    for role in ("r1", last):
        await platform.query(made, PASSWORD.format(role))
    task, work = reading(platform), Work()
    with work.watching(platform, monkeypatch):
        await task.run()
    [seen] = work.told
    assert (len(seen.roles), seen.unlisted_roles) == (LIMIT, count + 1 - LIMIT)
    names = [role.name for role in await known(platform, made)]
    assert set(names) == {"neondb_owner", *(f"r{number}" for number in range(1, LIMIT))}, "the oldest"
    assert sum(work.batches) == LIMIT - 1, "rows written"
    assert await can_enter(platform, made, "r1")
    assert not await can_enter(platform, made, last)

    again = Work()
    platform.services.activity.mark_unread([EndpointId(made["endpoints"][0]["id"])])
    with again.watching(platform, monkeypatch):
        await task.run()
    assert len(again.told) == 1
    assert (again.batches, again.transactions) == ([], 0), "unchanged contents cost no write"

    await _api_roles_come_first(platform, made, task)


async def _api_roles_come_first(platform: Platform, made: dict[str, Any], task: ReadContents) -> None:
    path = f"{API}/projects/{made['project']['id']}/branches/{made['branch']['id']}/roles"
    wished = {"role": {"name": "mine"}}
    refused = await platform.client.post(path, json=wished)
    assert (refused.status_code, refused.json()["code"]) == (422, "ROLES_LIMIT_EXCEEDED")
    assert (await platform.client.delete(f"{path}/r7")).status_code == 200
    await platform.run_operations()
    assert (await platform.client.post(path, json=wished)).status_code == 201
    await platform.run_operations()
    platform.services.activity.mark_unread([EndpointId(made["endpoints"][0]["id"])])
    await task.run()
    names = {role.name for role in await known(platform, made)}
    assert "mine" in names, "the youngest of all in Postgres, and known before the others"
    assert len(names) == LIMIT
    assert await can_enter(platform, made, "mine")


@sqlite_every_day
async def test_the_event_loop_never_works_on_one_list_for_long(
    platform: Platform, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a plan allows: of more than the platform ever reads nobody has a row."""
    made = await platform.create_ready_project()
    await platform.query(made, MAKE.format(count))
    unlimited = Settings().plan("unlimited")
    task, work = reading(platform, lambda _: unlimited), Work()
    with work.watching(platform, monkeypatch):
        await task.run()
        platform.services.activity.mark_unread([EndpointId(made["endpoints"][0]["id"])])
        await task.run()
    assert len(await known(platform, made)) == min(count + 1, MAX_LISTED)
    assert {what: most for what, most in work.most.items() if most > (PAGE if what == "from_row" else CHUNK_SIZE)} == {}
    assert max(work.batches) <= MAX_LISTED


@sqlite_every_day
async def test_databases_are_limited_too(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Settings().plan("unlimited").model_copy(update={"databases": 2})
    made = await platform.create_ready_project()
    for number in range(4):
        await platform.query(made, f"create database d{number} strategy file_copy")
    work = Work()
    with work.watching(platform, monkeypatch):
        await reading(platform, lambda _: plan).run()
    [seen] = work.told
    assert ([each.name for each in seen.databases], seen.unlisted_databases) == (["d0", "neondb"], 3)
