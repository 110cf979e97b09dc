"""Statements of running computes: what is counted and listed, and that exactly the right one is cancelled."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from bough.domain.statement_handle import StatementHandle
from bough.engine.port import (
    RunningStatement,
    SignalOutcome,
    StatementCounts,
    StatisticsQuery,
    StatisticsUnavailable,
)
from bough.errors import Busy
from bough.postgres import ADMIN_ROLE, preload_libraries, statement_statistics
from bough.postgres.statement_statistics import StatisticsOrder
from support.engine_home import ROLE, Compute, EngineHome
from support.replicas import start_replica, wait_until_equal

MARKER = "the_text_of_a_statement"


@pytest.fixture
async def compute(home: EngineHome) -> Compute:
    return await home.create_compute()


async def read(compute: Compute, **query: Any) -> tuple[StatementCounts, ...]:
    statistics = await compute.home.engine.read_statement_statistics(
        compute.spec.endpoint_id, StatisticsQuery(**{"limit": 50, **query})
    )
    assert statistics is not None
    return statistics.statements


async def read_texts(compute: Compute) -> list[str]:
    return [each.query.text for each in await read(compute) if each.query is not None]


async def list_running(compute: Compute) -> tuple[RunningStatement, ...]:
    running = await compute.home.engine.list_running_statements(compute.spec.endpoint_id)
    assert running is not None
    return running


async def send_signal(compute: Compute, handle: StatementHandle, *, terminate: bool = False) -> SignalOutcome | None:
    return await compute.home.engine.signal_statement(compute.spec.endpoint_id, handle, terminate=terminate)


@asynccontextmanager
async def sleeping(client: Any) -> AsyncIterator["asyncio.Task[Any]"]:
    """Run a statement that only ends when it is cancelled."""
    task = asyncio.create_task(client.execute("select pg_catalog.pg_sleep(600)"))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def wait_for_running(compute: Compute, count: int = 1) -> tuple[RunningStatement, ...]:
    while len(running := await list_running(compute)) != count:  # noqa: ASYNC110  the server has no event for this
        await asyncio.sleep(0.01)
    return running


async def test_statements_are_counted_by_role_and_database_without_constants(compute: Compute) -> None:
    async with compute.connect() as client:
        await client.execute("create table numbers (n int)")
        for number in range(3):
            await client.execute(f"insert into numbers select generate_series(1, {number})")
    [inserts] = [each for each in await read(compute, role=ROLE) if each.query and "insert" in each.query.text]
    assert inserts.query is not None
    assert inserts.query.text == "insert into numbers select generate_series($1, $2)"
    assert (inserts.calls, inserts.rows, inserts.role, inserts.database) == (3, 3, ROLE, "neondb")
    assert inserts.wal_bytes > 0
    assert 0 < inserts.mean_ms <= inserts.max_ms <= inserts.total_ms
    assert await read(compute, database="another") == ()
    assert await read(compute, role="another") == ()
    by_calls = [each.calls for each in await read(compute, order=StatisticsOrder.CALLS)]
    assert by_calls == sorted(by_calls, reverse=True)
    assert len(await read(compute, limit=1)) == 1


async def test_nothing_of_the_platform_is_counted_or_listed(compute: Compute) -> None:
    await compute.home.engine.measure_usage(compute.spec.endpoint_id)
    await read(compute)
    assert await read(compute) == ()
    async with compute.connect(ADMIN_ROLE, "postgres") as admin, sleeping(admin):
        await wait_until_equal(
            lambda: compute.fetch_value("select count(*) from pg_stat_activity where wait_event = 'PgSleep'"), 1
        )
        assert await list_running(compute) == ()


async def test_a_reset_forgets_all_statements(compute: Compute) -> None:
    await compute.fetch_value("select 1")
    assert await read(compute) != ()
    assert await compute.home.engine.reset_statement_statistics(compute.spec.endpoint_id) is True
    assert await read(compute) == ()


async def test_a_template_of_an_earlier_version_lacks_the_extension_until_the_first_question(compute: Compute) -> None:
    async with compute.connect(ADMIN_ROLE, "postgres") as admin:
        await admin.execute(f"drop schema {statement_statistics.SCHEMA} cascade")
    await compute.fetch_value("select 1 as counted")
    assert "select $1 as counted" in await read_texts(compute)
    assert await compute.fetch_value("select count(*) from pg_extension where extname = 'pg_stat_statements'") == 0
    await compute.fetch_value("create extension pg_stat_statements")
    assert await compute.fetch_value("select count(*) > 0 from pg_stat_statements")


async def test_without_the_library_the_error_says_what_to_do(home: EngineHome) -> None:
    """A compute that an earlier version started keeps running without it."""
    compute = await home.create_branch()
    settings = compute.spec.settings
    await compute.start(settings=preload_libraries.restrict(settings, ()))
    pid = compute.pid
    await compute.start(settings=settings)
    assert compute.pid == pid
    with pytest.raises(StatisticsUnavailable, match="restart the endpoint"):
        await read(compute)
    assert await list_running(compute) == ()
    await compute.suspend()
    await compute.start()
    assert await read(compute) == ()


async def test_a_compute_that_does_not_run_stays_suspended(compute: Compute) -> None:
    await compute.suspend()
    engine, endpoint = compute.home.engine, compute.spec.endpoint_id
    handle = StatementHandle.parse("1-1-1")
    assert await engine.read_statement_statistics(endpoint, StatisticsQuery(limit=1)) is None
    assert await engine.reset_statement_statistics(endpoint) is None
    assert await engine.ensure_statistics_readable(endpoint) is None
    assert await engine.list_running_statements(endpoint) is None
    assert await engine.signal_statement(endpoint, handle) is None
    assert await compute.get_address() is None


async def test_statistics_outlive_a_suspension_and_no_clone_has_them(compute: Compute) -> None:
    """Neither a branch of a running parent nor one of a sleeping parent."""
    await compute.fetch_value(f"select 1 as {MARKER}")
    of_running = await compute.home.create_child(compute)
    await compute.suspend()
    [dump] = [path for path in (compute.data_folder / "pg_stat").iterdir() if MARKER.encode() in path.read_bytes()]
    of_sleeping = await compute.home.create_child(compute)
    for child in (of_running, of_sleeping):
        files = [path for path in child.volume_folder.rglob("*") if path.is_file()]
        assert [path for path in files if MARKER.encode() in path.read_bytes()] == []
        await child.start()
        assert [text for text in await read_texts(child) if MARKER in text] == []
    await compute.start()
    assert not dump.exists()
    assert f"select $1 as {MARKER}" in await read_texts(compute)


async def test_a_replica_counts_its_own_statements(compute: Compute) -> None:
    replica = await start_replica(compute)
    await compute.fetch_value(f"select 1 as {MARKER}")
    await replica.fetch_value("select 1 as on_the_replica")
    assert await read_texts(replica) == ["select $1 as on_the_replica"]
    await compute.home.engine.reset_statement_statistics(replica.spec.endpoint_id)
    assert f"select $1 as {MARKER}" in await read_texts(compute)


async def test_a_replica_gets_the_extension_from_its_primary(compute: Compute) -> None:
    async with compute.connect(ADMIN_ROLE, "postgres") as admin:
        await admin.execute(f"drop schema {statement_statistics.SCHEMA} cascade")
    replica = await start_replica(compute)
    with pytest.raises(StatisticsUnavailable) as refused:
        await read(replica)
    assert refused.value.needs_primary
    await compute.home.engine.ensure_statistics_readable(compute.spec.endpoint_id)

    async def is_readable() -> bool:
        try:
            return isinstance(await read(replica), tuple)
        except StatisticsUnavailable:
            return False

    await wait_until_equal(is_readable, True)


async def test_a_statement_is_listed_while_it_runs_and_cancelled_by_its_handle(compute: Compute) -> None:
    async with compute.connect() as client, compute.connect() as other, sleeping(client) as one, sleeping(other) as two:
        tasks = (one, two)
        first, second = await wait_for_running(compute, 2)
        assert (first.role, first.database, first.state) == (ROLE, "neondb", "active")
        assert (first.query.text, first.wait_event) == ("select pg_catalog.pg_sleep(600)", "PgSleep")
        assert await send_signal(compute, first.handle) is SignalOutcome.SENT
        assert await wait_for_running(compute) == (second,)
        [ended], [running] = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert isinstance(ended.exception(), asyncpg.QueryCanceledError)
        assert not running.done()


async def test_a_later_statement_of_the_session_is_never_hit(compute: Compute) -> None:
    async with compute.connect() as client:
        async with sleeping(client) as task:
            [earlier] = await wait_for_running(compute)
            await send_signal(compute, earlier.handle)
            with pytest.raises(asyncpg.QueryCanceledError):
                await task
        async with sleeping(client) as later:
            [current] = await wait_for_running(compute)
            assert current.handle.pid == earlier.handle.pid
            for terminate in (False, True):
                assert await send_signal(compute, earlier.handle, terminate=terminate) is SignalOutcome.ENDED
            reused = replace(current.handle, session_began_at=earlier.handle.began_at)
            assert await send_signal(compute, reused, terminate=True) is SignalOutcome.ENDED
            assert await wait_for_running(compute) == (current,)
            assert not later.done()


async def test_an_open_transaction_can_only_be_terminated(compute: Compute) -> None:
    async with compute.connect() as client, compute.connect() as blocked:
        await client.execute("create table taken (n int)")
        await client.execute("begin; lock table taken")
        [idle] = await wait_for_running(compute)
        assert idle.state == "idle in transaction"
        assert idle.transaction_began_at is not None
        assert await send_signal(compute, idle.handle) is SignalOutcome.NOTHING_RUNS
        waiting = asyncio.create_task(blocked.fetchval("select count(*) from taken"))

        async def list_blockers() -> list[tuple[int, ...]]:
            return [each.blocked_by for each in await list_running(compute)]

        await wait_until_equal(list_blockers, [(), (idle.handle.pid,)])
        assert await send_signal(compute, idle.handle, terminate=True) is SignalOutcome.SENT
        assert await waiting == 0


async def test_one_compute_is_asked_twice_at_a_time(compute: Compute) -> None:
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(_ask(compute)) for _ in range(5)]
    assert sorted(each.result() for each in asked) == ["busy"] * 3 + ["listed"] * 2
    assert await _ask(compute) == "listed"


async def _ask(compute: Compute) -> str:
    try:
        await list_running(compute)
    except Busy:
        return "busy"
    return "listed"
