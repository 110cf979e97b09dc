"""Statements of hostile tenants: their texts, encodings and replies neither break nor exhaust the platform."""

import asyncio
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import asyncpg
import psycopg
import pytest

from bough.engine.local.computes import statement_results
from bough.engine.port import RunningStatement, StatementStatistics, StatisticsQuery
from bough.postgres import statement_statistics
from bough.postgres.statement_statistics import SCHEMA
from support.engine_home import ROLE, Compute, EngineHome

NOW = datetime(2026, 11, 19, tzinfo=UTC)
COUNTS: dict[str, Any] = {
    "queryid": -1,
    "toplevel": True,
    "role": b"r",
    "database": None,
    "calls": 1,
    "rows": 0,
    "total_exec_time": 1.0,
    "mean_exec_time": 1.0,
    "max_exec_time": 1.0,
    "shared_blks_hit": 0,
    "shared_blks_read": 0,
    "wal_bytes": 0,
    "since": None,
    "text": b"select 1",
    "text_bytes": 8,
}
RUNNING: dict[str, Any] = {
    "pid": 1,
    "backend_start": NOW,
    "xact_start": None,
    "query_start": NOW,
    "state": "active",
    "wait_event_type": None,
    "wait_event": None,
    "role": b"r",
    "database": b"d",
    "application_name": b"",
    "text": b"select 1",
    "blocked_by": "2 0",
}


async def read(compute: Compute) -> StatementStatistics:
    read = await compute.home.engine.read_statement_statistics(compute.spec.endpoint_id, StatisticsQuery(limit=200))
    assert read is not None
    return read


async def list_running(compute: Compute) -> tuple[RunningStatement, ...]:
    running = await compute.home.engine.list_running_statements(compute.spec.endpoint_id)
    assert running is not None
    return running


async def connect_to(compute: Compute, database: str, encoding: str) -> psycopg.Connection[Any]:
    address = await compute.get_address()
    assert address is not None
    return await asyncio.to_thread(
        psycopg.connect,
        host=address.host,
        port=address.port,
        user=ROLE,
        dbname=database,
        client_encoding=encoding,
        autocommit=True,
    )


@pytest.mark.parametrize(
    "statement",
    [
        f"create function {SCHEMA}.pg_stat_statements(boolean) returns int language sql as 'select 1'",
        f"select {SCHEMA}.pg_stat_statements_reset()",
        "drop extension pg_stat_statements",
        f"drop schema {SCHEMA} cascade",
        f"alter schema {SCHEMA} rename to other",
        "alter extension pg_stat_statements set schema public",
        "create schema own",
        "create function public.starts_with(text, text) returns boolean language sql as 'select false'",
        "alter database postgres set search_path = public",
        "load 'pg_stat_statements'",
        "set pg_stat_statements.track = none",
    ],
)
async def test_what_the_platform_calls_cannot_be_replaced(tenant_compute: Compute, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await tenant_compute.fetch_value(statement, database="postgres")


async def test_a_huge_text_is_cut(home: EngineHome) -> None:
    compute = await home.create_compute()
    names = ", ".join(f"{number} as c{number:0200}" for number in range(1000))
    await compute.fetch_value(f"select {names}")
    [shown] = [each.query for each in (await read(compute)).statements if each.calls == 1 and each.query]
    assert shown.is_truncated
    assert len(shown.text) == statement_statistics.MAX_TEXT_BYTES
    async with compute.connect() as client:
        sleep = asyncio.create_task(client.execute(f"select pg_catalog.pg_sleep(600), '{'x' * 2_000_000}'"))
        while not (running := await list_running(compute)):  # noqa: ASYNC110  the server has no event for this
            await asyncio.sleep(0.01)
        assert len(running[0].query.text) <= 8192
        await compute.home.engine.signal_statement(compute.spec.endpoint_id, running[0].handle)
        with pytest.raises(asyncpg.QueryCanceledError):
            await sleep


async def test_texts_in_other_encodings_break_nothing(home: EngineHome) -> None:
    compute = await home.create_compute()
    async with compute.connect() as client:
        for encoding in ("LATIN1", "SQL_ASCII"):
            await client.execute(
                f"create database {encoding} template template0 encoding '{encoding}' "
                "locale_provider libc lc_collate 'C' lc_ctype 'C'"
            )
    with closing(await connect_to(compute, "latin1", "LATIN1")) as latin:
        latin.execute('select 1 as "é"')
        assert '"é"' in str((await read(compute)).statements)
        latin.execute("begin")
        latin.execute('select 1 as "é"')
        [open_transaction] = await list_running(compute)
        assert open_transaction.query.text == 'select 1 as "\N{REPLACEMENT CHARACTER}"'
    with closing(await connect_to(compute, "sql_ascii", "SQL_ASCII")) as ascii_only:
        ascii_only.execute(b'select 1 as "\xff"')
        statements = (await read(compute)).statements
        assert statements
        assert {each.query for each in statements} == {None}
        ascii_only.execute("begin")
        ascii_only.execute(b'select 1 as "\xff"')
        while len(running := await list_running(compute)) != 1:  # noqa: ASYNC110  the other session may still end
            await asyncio.sleep(0.01)
        assert running[0].query.text == 'select 1 as "\N{REPLACEMENT CHARACTER}"'


async def test_texts_do_not_grow_without_limit(home: EngineHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too large a file is not read, and the next measurement of the storage deletes it."""
    compute = await home.create_compute()
    endpoint = compute.spec.endpoint_id
    file = compute.data_folder / "pg_stat_tmp" / "pgss_query_texts.stat"
    before = await home.engine.measure_storage(endpoint)
    async with compute.connect() as client:
        for number in range(10):
            await client.execute(f"select {', '.join('1' * (number + 1))} /* {'x' * 1_000_000} */")
    grown = await home.engine.measure_storage(endpoint)
    assert before is not None
    assert grown is not None
    assert file.stat().st_size >= 10_000_000
    assert grown.used_bytes - before.used_bytes > 9_900_000
    assert all(each.query for each in (await read(compute)).statements)
    monkeypatch.setattr(statement_statistics, "MAX_TEXT_FILE_BYTES", 1_000_000)
    assert not any(each.query for each in (await read(compute)).statements)
    await home.engine.measure_storage(endpoint)
    assert file.stat().st_size == 0
    assert (await read(compute)).statements == ()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("queryid", 2**63),
        ("queryid", "1"),
        ("calls", -1),
        ("calls", None),
        ("total_exec_time", float("nan")),
        ("mean_exec_time", float("inf")),
        ("max_exec_time", -1.0),
        ("max_exec_time", 1),
        ("role", b"r" * 64),
        ("text", b"x" * 8193),
        ("text", "a text"),
        ("toplevel", 1),
        ("since", "now"),
        ("since", datetime(2026, 1, 1)),
    ],
)
def test_false_statistics_are_rejected(column: str, value: object) -> None:
    info = {"stats_reset": NOW, "dealloc": 0}
    assert statement_results.parse_statistics(info, [COUNTS], 1).statements[0].since == NOW
    with pytest.raises(ValueError, match=r"not (a|the bytes)"):
        statement_results.parse_statistics(info, [{**COUNTS, column: value}], 1)


def test_more_rows_than_requested_are_rejected() -> None:
    with pytest.raises(ValueError, match="more rows"):
        statement_results.parse_statistics({"stats_reset": NOW, "dealloc": 0}, [COUNTS] * 2, 1)
    with pytest.raises(ValueError, match="more rows"):
        statement_results.parse_running([RUNNING] * 201)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("pid", -1),
        ("pid", None),
        ("backend_start", None),
        ("query_start", "now"),
        ("state", "x" * 64),
        ("state", None),
        ("wait_event", "x" * 64),
        ("application_name", b"x" * 64),
        ("text", b"x" * 8193),
        ("blocked_by", "1 " * 300),
        ("blocked_by", "-1"),
        ("blocked_by", "one"),
    ],
)
def test_false_running_statements_are_rejected(column: str, value: object) -> None:
    assert statement_results.parse_running([RUNNING])[0].blocked_by == (2, 0)
    with pytest.raises(ValueError, match=r"not a|not the bytes|invalid literal"):
        statement_results.parse_running([{**RUNNING, column: value}])
