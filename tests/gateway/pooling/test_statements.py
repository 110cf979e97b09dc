"""Prepared statements belong to the client that named them, on every server connection."""

import asyncio

import psycopg
import pytest

from support.gateway import PASSWORD, ROLE
from support.pooler import Pooler
from support.protocol_client import POOLED_HOST, ProtocolClient
from support.protocol_messages import FLUSH, SYNC, bind_and_execute, close, describe, parse, query

COUNT = "select count(*) from pg_prepared_statements"
CHANGED = "cached plan must not change result type"


async def test_one_name_is_another_statement_for_each(three_clients: list[ProtocolClient]) -> None:
    for number, client in enumerate(three_clients):
        assert not (await client.request(parse("s", f"select 'of {number}', $1::text"), SYNC)).errors
    for turn in range(3):
        for number, client in enumerate(three_clients):
            assert (await client.request(bind_and_execute("s", str(turn)), SYNC)).rows == [(f"of {number}", str(turn))]


async def test_the_unnamed_statement_is_each_clients_own(three_clients: list[ProtocolClient]) -> None:
    for number, client in enumerate(three_clients):
        await client.request(parse("", f"select {number}"), SYNC)
    for _ in range(2):
        for number, client in enumerate(three_clients):
            assert (await client.request(bind_and_execute(""), SYNC)).value == str(number)


async def test_a_name_that_is_taken_or_unknown_is_told_as_the_client_said_it(
    three_clients: list[ProtocolClient],
) -> None:
    one, other, _ = three_clients
    await one.request(parse("order-7", "select 1"), SYNC)
    await other.query("select 1")
    taken = (await one.request(parse("order-7", "select 1"), SYNC)).errors[0]
    assert (taken.sqlstate, taken.message) == ("42P05", 'prepared statement "order-7" already exists')
    unknown = (await other.request(bind_and_execute("order-7"), SYNC)).errors[0]
    assert (unknown.sqlstate, unknown.message) == ("26000", 'prepared statement "order-7" does not exist')
    assert (await one.request(bind_and_execute("order-7"), SYNC)).value == "1"


async def test_an_unknown_name_leaves_those_that_are_known_where_they_are(one_server_connection: Pooler) -> None:
    """In a failed transaction they could not be prepared again."""
    client = await one_server_connection.connect()
    await client.request(parse("s", "begin"), SYNC)
    await client.request(bind_and_execute("s"), SYNC)
    assert (await client.request(describe("S", "unknown"), SYNC)).sqlstate == "26000"
    assert not (await client.request(describe("S", "s"), SYNC)).errors


@pytest.mark.parametrize(
    ("other", "name"),
    [(parse("", "select 1, 2") + SYNC, ""), (query("prepare t as select 1, 2"), "t")],
    ids=["unnamed", "prepared with SQL"],
)
async def test_each_description_is_that_of_its_statement(
    one_server_connection: Pooler, other: bytes, name: str
) -> None:
    """The gateway compares descriptions only for the statements that it prepares itself."""
    client = await one_server_connection.connect()
    await client.request(parse("s", "select 'one column'"), describe("S", "s"), SYNC)
    await client.execute("begin")
    assert not (await client.request(other)).errors
    assert not (await client.request(describe("S", name), describe("S", "s"), SYNC)).errors
    assert (await client.request(bind_and_execute("s"), SYNC)).value == "one column"


@pytest.mark.parametrize("sql", ["deallocate all", "discard all", "deallocate s"])
@pytest.mark.parametrize("by", ["simple", "extended"])
async def test_what_one_throws_away_the_others_keep(three_clients: list[ProtocolClient], sql: str, by: str) -> None:
    one, other, third = three_clients
    for client in three_clients:
        await client.request(parse("s", "select 'the same'"), SYNC)
    reply = await (one.query(sql) if by == "simple" else one.extended_query(sql))
    assert reply.tags == [sql.upper().removesuffix(" S")]
    assert (await other.request(bind_and_execute("s"), SYNC)).value == "the same"
    assert (await one.request(bind_and_execute("s"), SYNC)).sqlstate == "26000"
    assert (await third.request(bind_and_execute("s"), SYNC)).value == "the same"


async def test_statements_that_nobody_uses_any_longer_leave_the_member(three_clients: list[ProtocolClient]) -> None:
    """A reset is cheaper without them; a returning client finds its own."""
    text = f"select 'kept', '{'long' * 30}'"
    for client in three_clients:
        await client.request(parse("s", text), SYNC)
    counts = [await client.fetch_value(COUNT) for _ in range(10) for client in three_clients[1:]]
    assert counts[0] == "1"
    assert counts[-1] == "0"
    for _ in range(10):
        for client in three_clients:
            assert not (await client.request(bind_and_execute("s"), SYNC)).errors
        assert await three_clients[0].fetch_value(COUNT) == "1"


async def test_a_statement_stays_for_those_who_have_it_too(three_clients: list[ProtocolClient]) -> None:
    """Short ones are prepared again, which takes no longer."""
    made = "select prepare_time from pg_prepared_statements"
    for text, stays in (("select 'short'", False), (f"select 'long', '{'long' * 30}'", True)):
        one, other = three_clients[:2]
        await one.request(parse(text, text), SYNC)
        await other.request(parse(text, text), SYNC)
        first = await other.fetch_value(made)
        await one.request(bind_and_execute(text), SYNC)
        assert (await one.fetch_value(made) == first) is stays


async def test_after_a_table_was_altered_a_statement_is_made_anew(three_clients: list[ProtocolClient]) -> None:
    """Also under the same name with the same query, and for new clients with that query."""
    one, other, third = three_clients
    text = "select * from things"
    await one.execute("insert into things values (1)")
    for client in (one, other):
        assert (await client.request(parse("s", text), bind_and_execute("s"), SYNC)).rows == [("1",)]
    await other.execute("alter table things add name text default 'new'")
    for client in (one, other):
        reply = await client.request(
            bind_and_execute("s"), SYNC
        )  # a server connection without it has prepared it with the new table
        assert reply.rows == [("1", "new")] or reply.errors[0].message == CHANGED
        assert (await client.request(close("S", "s"), parse("s", text), bind_and_execute("s"), SYNC)).rows == [
            ("1", "new")
        ]
    assert (await third.request(parse("t", text), bind_and_execute("t"), SYNC)).rows == [("1", "new")]


async def test_who_comes_new_with_a_text_is_not_troubled_by_an_old_plan_of_another(
    three_clients: list[ProtocolClient],
) -> None:
    one, other, _ = three_clients
    text = "select * from things"
    await one.execute("insert into things values (1)")
    assert (await one.request(parse("s", text), bind_and_execute("s"), SYNC)).rows == [("1",)]
    await one.execute("alter table things add name text default 'new'")
    reply = await other.request(parse("s", text), describe("S", "s"), bind_and_execute("s"), SYNC)
    assert (reply.message_types, reply.rows) == ("1tT2DCZ", [("1", "new")])


async def test_the_same_text_means_what_the_clients_search_path_says(three_clients: list[ProtocolClient]) -> None:
    for number, client in enumerate(three_clients):
        await client.execute(f"create schema s{number}", f"create table s{number}.things (c{number} integer)")
        await client.execute(f"insert into s{number}.things values ({number})", f"set search_path = s{number}")
    for _ in range(2):
        for number, client in enumerate(three_clients):
            reply = await client.request(
                close("S", "s"), parse("s", "select * from things"), bind_and_execute("s"), SYNC
            )
            assert reply.rows == [(str(number),)]
    for number, client in enumerate(three_clients):
        assert (await client.request(bind_and_execute("s"), SYNC)).rows == [(str(number),)]


async def test_the_same_text_with_other_types_is_another_statement(three_clients: list[ProtocolClient]) -> None:
    text, integer, sql = "select pg_typeof($1)", 23, 25
    await three_clients[0].request(parse("s", text, integer), SYNC)
    await three_clients[1].request(parse("s", text, sql), SYNC)
    for _ in range(2):
        assert (await three_clients[0].request(bind_and_execute("s", "1"), SYNC)).value == "integer"
        assert (await three_clients[1].request(bind_and_execute("s", "1"), SYNC)).value == "text"


async def test_a_temporary_table_does_not_stay_in_anybodys_statement(three_clients: list[ProtocolClient]) -> None:
    one, other, _ = three_clients
    await one.execute("insert into things values (1)")
    await one.execute("begin", "create temp table things (id integer)")
    assert (await one.request(parse("s", "select * from things"), bind_and_execute("s"), SYNC)).rows == []
    await one.execute("commit")
    assert (await other.request(parse("s", "select * from things"), bind_and_execute("s"), SYNC)).rows == [("1",)]
    assert (await one.request(bind_and_execute("s"), SYNC)).rows == [("1",)]


@pytest.mark.parametrize("server_count", [1, 2])
@pytest.mark.parametrize("before", [b"", describe("S", "s"), bind_and_execute("s")], ids=["new", "described", "used"])
@pytest.mark.parametrize(
    "others",
    [query("select 1"), parse("s", "select 1") + SYNC, parse("s", "select 2") + SYNC],
    ids=["elsewhere", "alike", "other"],
)
async def test_in_a_failed_transaction_a_statement_is_an_error_and_can_be_used_later(
    pooler: Pooler, server_count: int, before: bytes, others: bytes
) -> None:
    """Also on a server connection that would have to prepare it first, which is impossible there."""
    pooler.configure(servers=server_count, servers_per_pool=server_count)
    client, other, third = await pooler.connect_many(3)
    await client.request(parse("s", "select 1"), SYNC)
    await client.request(before, SYNC)
    for each in (other, third):
        await each.request(others)
    await client.request_all(query("begin"), query("select 1/0"))
    for phrase in (bind_and_execute("s"), describe("S", "s"), bind_and_execute("s")):
        assert (await client.request(phrase, SYNC)).sqlstate == "25P02"
    await client.execute("rollback")
    assert (await client.request(bind_and_execute("s"), SYNC)).value == "1"


# Batches that follow each other without waiting: the outcome of the first is unknown when the next is read.


async def test_one_that_was_never_made_is_not_found_by_the_next_batch(three_clients: list[ProtocolClient]) -> None:
    """Even if the server connection has the same query under another name."""
    failed, used, described, again = await three_clients[0].request_all(
        bind_and_execute("nothing") + parse("t", "select 1") + SYNC,
        parse("s", "select 1") + bind_and_execute("t") + SYNC,
        describe("S", "t") + SYNC,
        parse("t", "select 1") + bind_and_execute("t") + SYNC,
    )
    assert 'statement "nothing" does not exist' in failed.errors[0].message
    for reply in (used, described):
        assert (reply.sqlstate, reply.errors[0].message) == ("26000", 'prepared statement "t" does not exist')
    assert again.value == "1"


async def test_one_that_was_not_closed_after_all_is_there_for_the_next_batch(
    three_clients: list[ProtocolClient],
) -> None:
    await three_clients[0].request(parse("s", "select 1"), SYNC)
    failed, used, described = await three_clients[0].request_all(
        bind_and_execute("nothing") + close("S", "s") + SYNC, bind_and_execute("s") + SYNC, describe("S", "s") + SYNC
    )
    assert failed.sqlstate == "26000"
    assert used.value == "1"
    assert not described.errors


@pytest.mark.parametrize(
    "ending",
    [close("S", "s") + SYNC, query("deallocate s"), parse("", "deallocate s") + bind_and_execute("") + SYNC],
    ids=["close", "deallocate", "deallocate prepared"],
)
async def test_one_that_ends_only_with_the_next_batch_is_gone_then(
    three_clients: list[ProtocolClient], ending: bytes
) -> None:
    await three_clients[0].request(parse("s", "select 1"), SYNC)
    failed, taken, ended, used = await three_clients[0].request_all(
        bind_and_execute("nothing") + close("S", "s") + SYNC,
        parse("s", "select 2") + SYNC,
        ending,
        bind_and_execute("s") + SYNC,
    )
    assert (failed.sqlstate, taken.sqlstate, used.sqlstate) == ("26000", "42P05", "26000")
    assert not ended.errors
    assert (await three_clients[0].request(parse("s", "select 3"), bind_and_execute("s"), SYNC)).value == "3"


async def test_one_that_could_not_be_made_again_can_be_used_by_the_next_batch(pooler: Pooler) -> None:
    pooler.configure(servers=1, servers_per_pool=1, statements=1)
    (client,) = await pooler.connect_many(1)
    await client.request(parse("s", "select 1"), SYNC)
    await client.request(parse("other", "select 2"), SYNC)  # the server connection keeps only one
    failed, used = await client.request_all(
        bind_and_execute("nothing") + bind_and_execute("s") + SYNC, bind_and_execute("s") + SYNC
    )
    assert failed.sqlstate == "26000"
    assert used.value == "1"


async def test_nothing_is_left_of_a_name_that_was_taken_and_is_closed(three_clients: list[ProtocolClient]) -> None:
    client = three_clients[0]
    await client.request_all(query("begin"), parse("t", "select 1") + SYNC)
    assert (await client.request(parse("t", "select 2"), SYNC)).sqlstate == "42P05"
    _, _, used = await client.request_all(query("rollback"), close("S", "t") + SYNC, bind_and_execute("t") + SYNC)
    assert (used.sqlstate, used.errors[0].message) == ("26000", 'prepared statement "t" does not exist')


async def test_an_end_is_told_though_settings_changed_and_the_next_batch_waits_for_it(
    three_clients: list[ProtocolClient],
) -> None:
    client, other, _ = three_clients
    await client.execute("begin", "set work_mem = '5MB'")
    ended, twice = await client.request_all(parse("s", "select 1") + query("commit"), parse("s", "select 1") + SYNC)
    assert (ended.message_types, ended.tags, ended.status) == ("1CZ", ["COMMIT"], "I")
    assert (twice.message_types, twice.sqlstate) == ("EZ", "42P05")
    assert await other.fetch_value("show work_mem") == "4MB"
    assert await client.fetch_value("show work_mem") == "5MB"


@pytest.mark.parametrize("in_transaction", [False, True])
async def test_a_member_keeps_a_bounded_number(pooler: Pooler, in_transaction: bool) -> None:
    pooler.configure(servers=1, servers_per_pool=1, statements=5)
    one, other = await pooler.connect_many(2)
    for client in (one, other):
        await client.execute(*["begin"] * in_transaction)
        for number in range(30):
            assert not (await client.request(parse(f"s{number}", f"select {number}"), SYNC)).errors
        for number in [*range(30), *reversed(range(30))]:
            assert (await client.request(bind_and_execute(f"s{number}"), SYNC)).value == str(number)
        assert 0 < int(await client.fetch_value(COUNT) or 0) <= 5
        await client.execute(*["commit"] * in_transaction)
    assert (await one.request(bind_and_execute("s17"), SYNC)).value == "17"


async def test_a_batch_may_use_more_than_a_member_keeps(pooler: Pooler) -> None:
    pooler.configure(servers=1, servers_per_pool=1, statements=5)
    client, other = await pooler.connect_many(2)
    made = b"".join(parse(f"s{number}", f"select {number}") for number in range(30))
    used = b"".join(bind_and_execute(f"s{number}") for number in range(30))
    expected = [(str(number),) for number in range(30)]
    assert (await client.request(made, used, SYNC)).rows == expected
    await other.request(parse("s1", "select 'of another'"), SYNC)
    assert (await client.request_all(query("begin"), used, SYNC, query("commit")))[1].rows == expected
    assert int(await client.fetch_value(COUNT) or 0) <= 5


async def test_names_that_a_driver_counts_do_not_collide(one_server_connection: Pooler) -> None:
    """psycopg gives its first statement the same name in every connection."""
    conninfo = f"host={POOLED_HOST} hostaddr=127.0.0.1 port={one_server_connection.gateway.port} sslmode=require"
    conninfo += f" user={ROLE} password='{PASSWORD}' dbname={one_server_connection.database}"
    sessions = [await psycopg.AsyncConnection.connect(conninfo, autocommit=True, prepare_threshold=0) for _ in range(3)]
    for turn in range(4):
        for number, session in enumerate(sessions):
            cursor = await session.execute(f"select {number} * 10 + %s::integer".encode(), (turn,))
            assert await cursor.fetchone() == (number * 10 + turn,)
    for session in sessions:
        await session.close()


async def test_what_follows_the_sync_after_an_error_is_answered(one_server_connection: Pooler) -> None:
    """Also if the error was received before the Sync was sent."""
    client = await one_server_connection.connect()
    client.send(bind_and_execute("nobody"), FLUSH)
    assert (await client.read_until("E")).sqlstate == "26000"
    client.send(parse("s", "select 'skipped'"))
    await asyncio.sleep(0.05)
    synced, queried = await client.request_all(SYNC, query("select 'asked'"))
    assert (synced.message_types, queried.value) == ("Z", "asked")
    assert (await client.request(bind_and_execute("s"), SYNC)).sqlstate == "26000"


async def test_a_query_that_postgres_reads_over_frees_no_member(one_server_connection: Pooler) -> None:
    """Its error was received before, and no Sync has followed."""
    client, other = await one_server_connection.connect_many(2)
    await client.request(parse("", "select 'unnamed'"), SYNC)
    client.send(bind_and_execute("nobody"), FLUSH)
    assert (await client.read_until("E")).sqlstate == "26000"
    client.send(query("deallocate all"))
    other.send(query("select 'other'"))
    await asyncio.sleep(0.05)
    assert (await client.request(SYNC)).message_types == "Z"
    assert (await other.read_reply()).value == "other"
    assert (await client.request(bind_and_execute(""), SYNC)).value == "unnamed"


async def test_the_unnamed_statement_is_there_after_settings_were_read(one_server_connection: Pooler) -> None:
    client = await one_server_connection.connect()
    await client.extended_query("set statement_timeout = '1h'")
    assert (await client.request(bind_and_execute(""), SYNC)).tags == ["SET"]


async def test_what_was_to_make_room_in_a_batch_that_failed_is_still_usable(pooler: Pooler) -> None:
    pooler.configure(servers=1, servers_per_pool=1, statements=2)
    client = await pooler.connect()
    for name in ("a", "b"):
        await client.request(parse(name, f"select '{name}'"), SYNC)
    failed = await client.request(bind_and_execute("nobody"), parse("c", "select 'c'"), SYNC)
    assert failed.sqlstate == "26000"
    for name in ("a", "b", "a"):
        assert (await client.request(bind_and_execute(name), SYNC)).value == name
