"""Row 8: what a client of the pooled host leaves in a server connection, the next client of its role does not find."""

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

LONG = f"select 'of both', '{'long' * 30}'"  # worth keeping on a server connection
STATEMENTS = "select coalesce(string_agg(statement, '; '), '') from pg_prepared_statements"
WHO = "select pg_backend_pid()"


@pytest.fixture
async def pooler(postgres_server: PostgresServer) -> AsyncIterator[Pooler]:
    async with shared_server_connection.open_tenant_pooler(postgres_server, *RESETTABLE_EXTENSIONS) as made:
        yield made


@pytest.fixture
async def stateful_pooler(postgres_server: PostgresServer) -> AsyncIterator[Pooler]:
    async with shared_server_connection.open_tenant_pooler(
        postgres_server, *RESETTABLE_EXTENSIONS, *STATEFUL_EXTENSIONS
    ) as made:
        yield made


async def two(pooler: Pooler) -> tuple[ProtocolClient, ProtocolClient]:
    return await connect_tenant(pooler), await connect_tenant(pooler)


def hide(words: str) -> str:
    return f"do $do$ begin execute $words${words}$words$; end $do$"


@pytest.mark.parametrize("by", ["simple", "extended", "prepared", "pipelined"])
@pytest.mark.parametrize("hidden", [hide("prepare secret as select 1"), "select hidden('prepare secret as select 1')"])
async def test_a_statement_prepared_in_hidden_code_is_not_there_for_others(
    pooler: Pooler, hidden: str, by: str
) -> None:
    """The other client notices nothing, though it had to be given another server connection."""
    one, other = await two(pooler)
    for client in (one, other):
        await client.request(parse("s", LONG), SYNC)
    await one.request(bind_and_execute("s"), SYNC)
    await one.execute(hidden)
    asked = "select count(*) from pg_prepared_statements where from_sql"
    if by == "simple":
        assert await other.fetch_value(asked) == "0"
    elif by == "extended":
        assert (await other.extended_query(asked)).value == "0"
    elif by == "prepared":
        assert (await other.request(bind_and_execute("s"), SYNC)).rows[0][0] == "of both"
    else:
        answers = await other.request_all(query("begin"), query(asked), bind_and_execute("s") + SYNC, query("commit"))
        assert [answer.sqlstate for answer in answers] == [None] * 4
        assert answers[1].value == "0"
    assert (await other.query("execute secret")).sqlstate == "26000"
    assert (await other.request(bind_and_execute("s"), SYNC)).rows[0][0] == "of both"


async def test_hidden_code_does_not_replace_the_statements_of_others(pooler: Pooler) -> None:
    one, other = await two(pooler)
    for client in (one, other):
        await client.request(parse("s", LONG), SYNC)
    await one.request(bind_and_execute("s"), SYNC)
    name = await one.fetch_value("select name from pg_prepared_statements")
    await one.execute(hide(f"deallocate {name}"), hide(f"prepare {name} as select 'of an attacker', ''"))
    assert (await other.request(bind_and_execute("s"), SYNC)).rows[0][0] == "of both"


async def test_texts_of_statements_are_seen_only_by_those_who_prepared_them_too(pooler: Pooler) -> None:
    one, other = await two(pooler)
    for client, own in ((one, "select 'secret of one'"), (other, "select 'secret of other'")):
        await client.request(parse("both", LONG), parse("own", own), SYNC)
    for client in (one, other, one):
        await client.request(bind_and_execute("both"), bind_and_execute("own"), SYNC)
    assert "secret" not in (await other.fetch_value(STATEMENTS) or "")
    assert LONG in (await other.fetch_value(STATEMENTS) or "")
    assert await (await connect_tenant(pooler)).fetch_value(STATEMENTS) == ""


@pytest.mark.parametrize("name", ["'named', ", ""])
@pytest.mark.parametrize("by", ["words", "hidden", "trigger"])
async def test_connections_of_dblink_are_not_there_for_others(stateful_pooler: Pooler, name: str, by: str) -> None:
    one, other = await two(stateful_pooler)
    words = (
        f"select dblink_connect_u({name}'host={stateful_pooler.folder} dbname={stateful_pooler.database} user=store')"
    )
    hidden = words.replace("'", "''")
    ways = {"words": words, "hidden": f"select hidden('{hidden}')", "trigger": f"insert into words values ('{hidden}')"}
    await one.execute("select 1", ways[by])
    assert await other.fetch_value("select dblink_get_connections()") is None
    assert (await other.query("select dblink_disconnect()")).sqlstate == "08003"


async def test_connections_of_foreign_tables_are_not_there_for_others(stateful_pooler: Pooler) -> None:
    one, other = await two(stateful_pooler)
    await one.execute("select count(*) from far_words")
    assert await other.fetch_value("select count(*) from postgres_fdw_get_connections()") == "0"


async def test_an_extension_that_keeps_something_is_noticed_when_it_comes(pooler: Pooler) -> None:
    """Though its database had none when the server connection was opened, and cleaning was enough."""
    one, other = await two(pooler)
    for _ in range(2):
        assert await one.fetch_value(WHO) == await other.fetch_value(WHO)
    before = await one.fetch_value(WHO)
    await pooler.superuser.execute(f"create schema far; grant all on schema far to {tenant_role(pooler)}")
    await one.execute("select 'create extension'")  # the word is enough, wherever it stands
    await pooler.superuser.execute("create extension dblink schema far")
    assert await other.fetch_value(WHO) != before


async def test_an_extension_that_nobody_knows_counts_as_one_that_keeps_something(pooler: Pooler) -> None:
    await pooler.superuser.execute("set allow_system_table_mods = on")
    await pooler.superuser.execute("update pg_extension set extname = 'unheard_of' where extname = 'cube'")
    one, other = await two(pooler)
    assert await one.fetch_value(WHO) != await other.fetch_value(WHO)
    await pooler.superuser.execute("update pg_extension set extname = 'cube' where extname = 'unheard_of'")
    await one.execute("select 'extension'")
    assert await one.fetch_value(WHO) == await other.fetch_value(WHO)


@pytest.mark.parametrize("by", [f"select setseed({SEED})", f"select hidden('set seed to {SEED}')"])
async def test_nobody_chooses_anothers_random_numbers(pooler: Pooler, by: str) -> None:
    one, other = await two(pooler)
    predicted = await shared_server_connection.predict_random_values(pooler)
    await one.execute(by)
    assert await one.fetch_value("select random()") in predicted
    await one.execute(by)
    assert await other.fetch_value("select random()") not in predicted


@pytest.mark.parametrize("by", ["role", "parameter"])
async def test_the_role_that_a_session_begins_with_is_everybodys(pooler: Pooler, by: str) -> None:
    role, startup = tenant_role(pooler), {}
    if by == "role":
        await pooler.superuser.execute(f"alter role {role} set role = {role}_worker")
    else:
        startup = {"options": f"-c role={role}_worker"}
    one, other = await connect_tenant(pooler, **startup), await connect_tenant(pooler, **startup)
    for client in (one, other, one, other, one):
        assert await client.fetch_value("select current_user") == f"{role}_worker"
    await other.execute("set role none", "reset role")
    for client in (one, other, one):
        assert await client.fetch_value("select current_user") == f"{role}_worker"
