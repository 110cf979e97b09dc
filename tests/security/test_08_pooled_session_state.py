"""Rule 8: a client of a pooled host leaves no session state to the next client of the same role."""

from collections.abc import AsyncIterator

import pytest

from security import shared_server_connection
from security.shared_server_connection import (
    RESETTABLE_EXTENSIONS,
    SEED,
    STATEFUL_EXTENSIONS,
    connect_tenant,
    tenant_role,
)
from support.pooler import Pooler
from support.postgres import PostgresServer
from support.protocol_client import ProtocolClient
from support.protocol_messages import SYNC, bind_and_execute, parse, query

LONG_STATEMENT = f"select 'of both', '{'long' * 30}'"  # long enough to be kept on a server connection
STATEMENTS = "select coalesce(string_agg(statement, '; '), '') from pg_prepared_statements"
BACKEND_PID = "select pg_backend_pid()"


@pytest.fixture
async def pooler(postgres_server: PostgresServer) -> AsyncIterator[Pooler]:
    async with shared_server_connection.open_tenant_pooler(postgres_server, *RESETTABLE_EXTENSIONS) as opened:
        yield opened


@pytest.fixture
async def stateful_pooler(postgres_server: PostgresServer) -> AsyncIterator[Pooler]:
    async with shared_server_connection.open_tenant_pooler(
        postgres_server, *RESETTABLE_EXTENSIONS, *STATEFUL_EXTENSIONS
    ) as opened:
        yield opened


async def connect_two(pooler: Pooler) -> tuple[ProtocolClient, ProtocolClient]:
    return await connect_tenant(pooler), await connect_tenant(pooler)


def wrap_in_do(sql: str) -> str:
    return f"do $do$ begin execute $words${sql}$words$; end $do$"


@pytest.mark.parametrize("by", ["simple", "extended", "prepared", "pipelined"])
@pytest.mark.parametrize(
    "hidden", [wrap_in_do("prepare secret as select 1"), "select hidden('prepare secret as select 1')"]
)
async def test_a_statement_prepared_in_hidden_code_is_not_there_for_others(
    pooler: Pooler, hidden: str, by: str
) -> None:
    """The second client continues without an error, although it gets another server connection."""
    first, second = await connect_two(pooler)
    for client in (first, second):
        await client.request(parse("s", LONG_STATEMENT), SYNC)
    await first.request(bind_and_execute("s"), SYNC)
    await first.execute(hidden)
    count_query = "select count(*) from pg_prepared_statements where from_sql"
    if by == "simple":
        assert await second.fetch_value(count_query) == "0"
    elif by == "extended":
        assert (await second.extended_query(count_query)).value == "0"
    elif by == "prepared":
        assert (await second.request(bind_and_execute("s"), SYNC)).rows[0][0] == "of both"
    else:
        replies = await second.request_all(
            query("begin"), query(count_query), bind_and_execute("s") + SYNC, query("commit")
        )
        assert [reply.sqlstate for reply in replies] == [None] * 4
        assert replies[1].value == "0"
    assert (await second.query("execute secret")).sqlstate == "26000"
    assert (await second.request(bind_and_execute("s"), SYNC)).rows[0][0] == "of both"


async def test_hidden_code_does_not_replace_the_statements_of_others(pooler: Pooler) -> None:
    first, second = await connect_two(pooler)
    for client in (first, second):
        await client.request(parse("s", LONG_STATEMENT), SYNC)
    await first.request(bind_and_execute("s"), SYNC)
    name = await first.fetch_value("select name from pg_prepared_statements")
    await first.execute(wrap_in_do(f"deallocate {name}"), wrap_in_do(f"prepare {name} as select 'of an attacker', ''"))
    assert (await second.request(bind_and_execute("s"), SYNC)).rows[0][0] == "of both"


async def test_texts_of_statements_are_seen_only_by_those_who_prepared_them_too(pooler: Pooler) -> None:
    first, second = await connect_two(pooler)
    for client, own in ((first, "select 'secret of one'"), (second, "select 'secret of other'")):
        await client.request(parse("both", LONG_STATEMENT), parse("own", own), SYNC)
    for client in (first, second, first):
        await client.request(bind_and_execute("both"), bind_and_execute("own"), SYNC)
    assert "secret" not in (await second.fetch_value(STATEMENTS) or "")
    assert LONG_STATEMENT in (await second.fetch_value(STATEMENTS) or "")
    assert await (await connect_tenant(pooler)).fetch_value(STATEMENTS) == ""


@pytest.mark.parametrize("name", ["'named', ", ""])
@pytest.mark.parametrize("by", ["words", "hidden", "trigger"])
async def test_connections_of_dblink_are_not_there_for_others(stateful_pooler: Pooler, name: str, by: str) -> None:
    first, second = await connect_two(stateful_pooler)
    connect = (
        f"select dblink_connect_u({name}'host={stateful_pooler.folder} dbname={stateful_pooler.database} user=store')"
    )
    hidden = connect.replace("'", "''")
    ways = {
        "words": connect,
        "hidden": f"select hidden('{hidden}')",
        "trigger": f"insert into words values ('{hidden}')",
    }
    await first.execute("select 1", ways[by])
    assert await second.fetch_value("select dblink_get_connections()") is None
    assert (await second.query("select dblink_disconnect()")).sqlstate == "08003"


async def test_connections_of_foreign_tables_are_not_there_for_others(stateful_pooler: Pooler) -> None:
    first, second = await connect_two(stateful_pooler)
    await first.execute("select count(*) from far_words")
    assert await second.fetch_value("select count(*) from postgres_fdw_get_connections()") == "0"


async def test_an_extension_that_keeps_something_is_noticed_when_it_comes(pooler: Pooler) -> None:
    """The database had no such extension when the server connection was opened, so a reset was enough then."""
    first, second = await connect_two(pooler)
    for _ in range(2):
        assert await first.fetch_value(BACKEND_PID) == await second.fetch_value(BACKEND_PID)
    before = await first.fetch_value(BACKEND_PID)
    await pooler.superuser.execute(f"create schema far; grant all on schema far to {tenant_role(pooler)}")
    await first.execute("select 'create extension'")  # any statement with this word is enough
    await pooler.superuser.execute("create extension dblink schema far")
    assert await second.fetch_value(BACKEND_PID) != before


async def test_an_extension_that_nobody_knows_counts_as_one_that_keeps_something(pooler: Pooler) -> None:
    await pooler.superuser.execute("set allow_system_table_mods = on")
    await pooler.superuser.execute("update pg_extension set extname = 'unheard_of' where extname = 'cube'")
    first, second = await connect_two(pooler)
    assert await first.fetch_value(BACKEND_PID) != await second.fetch_value(BACKEND_PID)
    await pooler.superuser.execute("update pg_extension set extname = 'cube' where extname = 'unheard_of'")
    await first.execute("select 'extension'")
    assert await first.fetch_value(BACKEND_PID) == await second.fetch_value(BACKEND_PID)


@pytest.mark.parametrize("by", [f"select setseed({SEED})", f"select hidden('set seed to {SEED}')"])
async def test_nobody_chooses_anothers_random_numbers(pooler: Pooler, by: str) -> None:
    first, second = await connect_two(pooler)
    predicted = await shared_server_connection.predict_random_values(pooler)
    await first.execute(by)
    assert await first.fetch_value("select random()") in predicted
    await first.execute(by)
    assert await second.fetch_value("select random()") not in predicted


@pytest.mark.parametrize("by", ["role", "parameter"])
async def test_the_role_that_a_session_begins_with_is_everybodys(pooler: Pooler, by: str) -> None:
    role, startup = tenant_role(pooler), {}
    if by == "role":
        await pooler.superuser.execute(f"alter role {role} set role = {role}_worker")
    else:
        startup = {"options": f"-c role={role}_worker"}
    first, second = await connect_tenant(pooler, **startup), await connect_tenant(pooler, **startup)
    for client in (first, second, first, second, first):
        assert await client.fetch_value("select current_user") == f"{role}_worker"
    await second.execute("set role none", "reset role")
    for client in (first, second, first):
        assert await client.fetch_value("select current_user") == f"{role}_worker"
