"""Row 8: what a client of the pooled host leaves in a server connection, the next client of its role does not find."""

from collections.abc import AsyncIterator

import pytest

import world
from gateway.pooling.phrases import SYNC, parse, query, use
from gateway.pooling.pooler import Pooler
from gateway.pooling.speaking import Speaker
from security import shared_session
from security.shared_session import CLEANED, KEEPING, PREDICTED, role_of, tenant

LONG = f"select 'of both', '{'long' * 30}'"  # worth keeping on a server connection
STATEMENTS = "select coalesce(string_agg(statement, '; '), '') from pg_prepared_statements"
WHO = "select pg_backend_pid()"


@pytest.fixture
async def pooler(postgres_server: world.PostgresServer) -> AsyncIterator[Pooler]:
    async with shared_session.opened(postgres_server, *CLEANED) as made:
        yield made


@pytest.fixture
async def keeping(postgres_server: world.PostgresServer) -> AsyncIterator[Pooler]:
    async with shared_session.opened(postgres_server, *CLEANED, *KEEPING) as made:
        yield made


async def two(pooler: Pooler) -> tuple[Speaker, Speaker]:
    return await tenant(pooler), await tenant(pooler)


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
        await client.ask(parse("s", LONG), SYNC)
    await one.ask(use("s"), SYNC)
    await one.does(hidden)
    asked = "select count(*) from pg_prepared_statements where from_sql"
    if by == "simple":
        assert await other.value(asked) == "0"
    elif by == "extended":
        assert (await other.extended(asked)).value == "0"
    elif by == "prepared":
        assert (await other.ask(use("s"), SYNC)).rows[0][0] == "of both"
    else:
        answers = await other.asks(query("begin"), query(asked), use("s") + SYNC, query("commit"))
        assert [answer.code for answer in answers] == [None] * 4
        assert answers[1].value == "0"
    assert (await other.query("execute secret")).code == "26000"
    assert (await other.ask(use("s"), SYNC)).rows[0][0] == "of both"


async def test_hidden_code_does_not_replace_the_statements_of_others(pooler: Pooler) -> None:
    one, other = await two(pooler)
    for client in (one, other):
        await client.ask(parse("s", LONG), SYNC)
    await one.ask(use("s"), SYNC)
    name = await one.value("select name from pg_prepared_statements")
    await one.does(hide(f"deallocate {name}"), hide(f"prepare {name} as select 'of an attacker', ''"))
    assert (await other.ask(use("s"), SYNC)).rows[0][0] == "of both"


async def test_texts_of_statements_are_seen_only_by_those_who_prepared_them_too(pooler: Pooler) -> None:
    one, other = await two(pooler)
    for client, own in ((one, "select 'secret of one'"), (other, "select 'secret of other'")):
        await client.ask(parse("both", LONG), parse("own", own), SYNC)
    for client in (one, other, one):
        await client.ask(use("both"), use("own"), SYNC)
    assert "secret" not in (await other.value(STATEMENTS) or "")
    assert LONG in (await other.value(STATEMENTS) or "")
    assert await (await tenant(pooler)).value(STATEMENTS) == ""


@pytest.mark.parametrize("name", ["'named', ", ""])
@pytest.mark.parametrize("by", ["words", "hidden", "trigger"])
async def test_connections_of_dblink_are_not_there_for_others(keeping: Pooler, name: str, by: str) -> None:
    one, other = await two(keeping)
    words = f"select dblink_connect_u({name}'host={keeping.folder} dbname={keeping.database} user=store')"
    hidden = words.replace("'", "''")
    ways = {"words": words, "hidden": f"select hidden('{hidden}')", "trigger": f"insert into words values ('{hidden}')"}
    await one.does("select 1", ways[by])
    assert await other.value("select dblink_get_connections()") is None
    assert (await other.query("select dblink_disconnect()")).code == "08003"


async def test_connections_of_foreign_tables_are_not_there_for_others(keeping: Pooler) -> None:
    one, other = await two(keeping)
    await one.does("select count(*) from far_words")
    assert await other.value("select count(*) from postgres_fdw_get_connections()") == "0"


async def test_an_extension_that_keeps_something_is_noticed_when_it_comes(pooler: Pooler) -> None:
    """Though its database had none when the server connection was opened, and cleaning was enough."""
    one, other = await two(pooler)
    for _ in range(2):
        assert await one.value(WHO) == await other.value(WHO)
    before = await one.value(WHO)
    await pooler.behind.execute(f"create schema far; grant all on schema far to {role_of(pooler)}")
    await one.does("select 'create extension'")  # the word is enough, wherever it stands
    await pooler.behind.execute("create extension dblink schema far")
    assert await other.value(WHO) != before


async def test_an_extension_that_nobody_knows_counts_as_one_that_keeps_something(pooler: Pooler) -> None:
    await pooler.behind.execute("set allow_system_table_mods = on")
    await pooler.behind.execute("update pg_extension set extname = 'unheard_of' where extname = 'cube'")
    one, other = await two(pooler)
    assert await one.value(WHO) != await other.value(WHO)
    await pooler.behind.execute("update pg_extension set extname = 'cube' where extname = 'unheard_of'")
    await one.does("select 'extension'")
    assert await one.value(WHO) == await other.value(WHO)


@pytest.mark.parametrize("by", [f"select setseed({PREDICTED})", f"select hidden('set seed to {PREDICTED}')"])
async def test_nobody_chooses_anothers_random_numbers(pooler: Pooler, by: str) -> None:
    one, other = await two(pooler)
    predicted = await shared_session.predicted(pooler)
    await one.does(by)
    assert await one.value("select random()") in predicted
    await one.does(by)
    assert await other.value("select random()") not in predicted


@pytest.mark.parametrize("by", ["role", "parameter"])
async def test_the_role_that_a_session_begins_with_is_everybodys(pooler: Pooler, by: str) -> None:
    role, startup = role_of(pooler), {}
    if by == "role":
        await pooler.behind.execute(f"alter role {role} set role = {role}_worker")
    else:
        startup = {"options": f"-c role={role}_worker"}
    one, other = await tenant(pooler, **startup), await tenant(pooler, **startup)
    for client in (one, other, one, other, one):
        assert await client.value("select current_user") == f"{role}_worker"
    await other.does("set role none", "reset role")
    for client in (one, other, one):
        assert await client.value("select current_user") == f"{role}_worker"
