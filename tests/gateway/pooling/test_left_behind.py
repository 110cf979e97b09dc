"""State that a transaction leaves on a server connection is reset before the next client; some is rejected."""

import pytest

from support.pooler import Pooler
from support.protocol_client import ProtocolClient
from support.protocol_messages import SYNC, extended_query, query


async def test_a_transactions_temporary_tables_end_with_it(three_clients: list[ProtocolClient]) -> None:
    client, other, _ = three_clients
    for made in (
        "create temp table t (id integer)",
        "create temporary table t as select 1 as id",
        "select 1 as id into temp t",
        "create local temp table t (id integer) on commit delete rows",
        "create temp view t as select 1 as id",
        "create temp sequence t",
        "create table pg_temp.t (id integer)",
    ):
        await client.execute("begin", made)
        await client.execute("select * from t", "commit")
        assert (await client.query("table t")).sqlstate == "42P01", made
        assert (await other.query("table t")).sqlstate == "42P01", made
        await other.execute("begin", "create temp table t (other text)", "table t", "rollback")


@pytest.mark.parametrize("by", ["simple", "extended"])
@pytest.mark.parametrize(
    "sql",
    [
        "create temp table t (id integer)",
        "CREATE /* not really */ TEMPORARY VIEW t AS select 1",
        "create temp sequence t",
        "select 1 as id into temp t",
        "create temp table t as select 1",
        "prepare p as select 1",
        "declare c cursor with hold for select 1",
        "listen news",
        "select pg_advisory_lock(1)",
        "select pg_advisory_lock_shared(1)",
        "select pg_try_advisory_lock(1, 2)",
        "select pg_catalog.pg_try_advisory_lock_shared(1)",
    ],
)
async def test_what_cannot_be_kept_is_refused_and_the_session_goes_on(
    three_clients: list[ProtocolClient], by: str, sql: str
) -> None:
    client, other, _ = three_clients
    reply = await (client.query(sql) if by == "simple" else client.extended_query(sql))
    assert (reply.sqlstate, reply.errors[0].severity, reply.status) == ("0A000", "ERROR", "I")
    assert await client.fetch_value("select 1") == "1"
    assert await other.fetch_value("select count(*) from pg_locks where locktype = 'advisory'") == "0"


@pytest.mark.parametrize("sql", ["listen news", "select pg_advisory_lock(1)", "select pg_try_advisory_lock_shared(1)"])
async def test_a_refusal_aborts_the_transaction_like_an_error(three_clients: list[ProtocolClient], sql: str) -> None:
    client, other, _ = three_clients
    await client.execute("begin", "insert into things values (1)")
    reply = await client.query(sql)
    assert (reply.sqlstate, reply.status) == ("0A000", "E")
    assert (await client.query("select 1")).sqlstate == "25P02"
    assert (await client.query("commit")).tags == ["ROLLBACK"]
    assert await client.fetch_value("select count(*) from things") == "0"
    batch = await client.request(
        extended_query("insert into things values (2)"), extended_query(sql), extended_query("select 1"), SYNC
    )
    assert (batch.sqlstate, batch.message_types[-2:], batch.status) == ("0A000", "EZ", "I")
    assert await other.fetch_value("select count(*) from things") == "0"


async def test_refusals_name_the_way_out(one_server_connection: Pooler) -> None:
    client = await one_server_connection.connect()
    for sql, way in (("listen news", "direct host"), ("select pg_advisory_lock(1)", "pg_advisory_xact_lock")):
        error = (await client.query(sql)).errors[0]
        assert way in f"{error.message} {error.detail} {error.hint}"


async def test_words_in_strings_comments_and_columns_are_not_refused(three_clients: list[ProtocolClient]) -> None:
    client, _, _ = three_clients
    await client.execute(
        "create table listen (prepare text, temp text)",
        "insert into listen values ('listen news', $$ select pg_advisory_lock(1) $$)",
        "select 'listen a; listen b' as listen -- listen c",
        "/* listen; /* prepare p as */ declare */ select temp, prepare from listen",
        """select "pg_advisory_lock" from (select 1 as "pg_advisory_lock") as t""",
        "comment on table listen is 'create temp table t'",
        "select pg_advisory_unlock_all()",
        "begin; select pg_advisory_xact_lock(1), pg_try_advisory_xact_lock(2); commit",
        "notify news, 'listen'",
    )


async def test_statements_of_sql_and_cursors_that_are_held_end_with_the_transaction(
    three_clients: list[ProtocolClient],
) -> None:
    client, other, _ = three_clients
    for _ in range(2):
        await client.execute("begin", "prepare p as select 1", "declare c cursor with hold for select 1", "execute p")
        await client.execute("fetch c", "commit")
        for each in (client, other):
            assert (await each.query("execute p")).sqlstate == "26000"
            assert (await each.query("fetch c")).sqlstate == "34000"
    await client.execute("begin; prepare p as select 1; execute p; deallocate p; commit")


HIDING = """
    create function hidden(words text) returns void language plpgsql as $$ begin execute words; end $$;
    create function take_lock() returns void language sql as $$ select hidden('select pg_advisory_' || 'lock(4)') $$;
    create function hear() returns void language sql as $$ select hidden('lis' || 'ten news') $$;
    create function keep_table() returns void language sql as $$ select hidden('create te' || 'mp table kept ()') $$;
    create function keep_setting() returns void language sql as
        $$ select hidden('set app' || '.hidden = 1'); select hidden('set search' || '_path = pg_catalog') $$;
    create function keep_cursor() returns void language sql as
        $$ select hidden('declare kept_rows cursor wi' || 'th hold for select 1') $$;
    create function keep_statement() returns void language sql as
        $$ select hidden('prep' || 'are kept_one as select 1') $$;
    create sequence numbers;
"""


@pytest.mark.parametrize("place", ["alone", "in a transaction", "in a transaction of one query", "extended"])
@pytest.mark.parametrize(
    "hidden, seen, code",
    [
        ("select take_lock()", "select pg_try_advisory_xact_lock(4)", "t"),
        ("select hear()", "select count(*) from pg_listening_channels()", "0"),
        ("select keep_table()", "table kept", "42P01"),
        ("select keep_setting()", "select nullif(current_setting('app.hidden', true), '')", None),
        ("select keep_setting()", "show search_path", '"$user", public'),
        ("select keep_cursor()", "fetch kept_rows", "34000"),
        ("select keep_statement()", "execute kept_one", "26000"),
        ("select nextval('numbers')", "select lastval()", "55000"),
        ("select nextval('numbers')", "select currval('numbers')", "55000"),
    ],
)
async def test_what_is_hidden_in_functions_stays_hidden_from_others(
    one_server_connection: Pooler, place: str, hidden: str, seen: str, code: str | None
) -> None:
    await one_server_connection.superuser.execute(HIDING)
    client, other = await one_server_connection.connect_many(2)
    if place == "extended":
        await client.extended_query(hidden)
    elif place == "alone":
        await client.query(hidden)
    elif place == "in a transaction":
        await client.execute("begin", hidden, "commit")
    else:
        await client.request(query(f"begin; {hidden}; commit"))
    for each in (other, await one_server_connection.connect()):
        reply = await each.query(seen)
        assert (reply.sqlstate or reply.value) == code


async def test_a_notification_comes_to_nobody_at_the_pooled_host(one_server_connection: Pooler) -> None:
    await one_server_connection.superuser.execute(HIDING)
    client, other = await one_server_connection.connect_many(2)
    await client.query("select hear()")
    await other.execute("notify news, 'hello'", "select 1")
    assert b"A" not in {each.type for each in other.received}


async def test_numbers_of_a_sequence_are_known_in_the_transaction(three_clients: list[ProtocolClient]) -> None:
    client, other, _ = three_clients
    await client.execute("create sequence numbers", "begin", "select nextval('numbers')")
    assert await client.fetch_value("select lastval()") == "1"
    assert await client.fetch_value("select currval('numbers')") == "1"
    await client.execute("commit")
    assert (await other.query("select lastval()")).sqlstate == "55000"


async def test_a_library_that_is_loaded_does_not_pass_to_others(three_clients: list[ProtocolClient]) -> None:
    client, other, _ = three_clients
    server = await client.fetch_value("select pg_backend_pid()")
    await client.execute("load 'auto_explain'")
    assert await other.fetch_value("select pg_backend_pid()") != server
    assert (await other.query("show auto_explain.log_min_duration")).sqlstate == "42704"
