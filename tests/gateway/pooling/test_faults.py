"""Clients that disappear and server connections that end: no fault of one client affects another."""

import pytest

from bough.gateway.pooling import client_transport
from support.pooler import Pooler
from support.protocol_client import ConnectionEnded, ProtocolClient
from support.protocol_messages import (
    COPY_DONE,
    SYNC,
    bind,
    bind_and_execute,
    close,
    copy_data,
    execute,
    extended_query,
    parse,
    query,
)

LONG = "select pg_sleep(600)"
COUNT = "select count(*) from things"


def reset_connection(client: ProtocolClient) -> None:
    client.reset_connection()


def reset_within_message(client: ProtocolClient) -> None:
    client.send(query("insert into things values (3)")[:-4])
    client.wire.close()


def terminate(client: ProtocolClient) -> None:
    client.send(b"X\0\0\0\4")
    client.wire.close()


def close_without_terminate(client: ProtocolClient) -> None:
    client.wire.close()


@pytest.fixture(autouse=True)
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A half-closed client still gets replies for a while."""
    monkeypatch.setattr(client_transport, "HALF_CLOSED_SECONDS", 0.2)


LEAVES = [reset_connection, reset_within_message, terminate, close_without_terminate]
MIDDLES = {
    "a transaction": query("begin; insert into things values (1); lock table things"),
    "a failed transaction": query("begin; insert into things values (1); select 1/0"),
    "a batch": extended_query("insert into things values (1)") + extended_query("lock table things") + b"H\0\0\0\4",
    "a query": query("begin; insert into things values (1)") + query(LONG),
    "a query by itself": query(f"insert into things values (1); {LONG}"),
    "a batch that lasts": extended_query("insert into things values (1)")
    + extended_query(LONG)
    + SYNC
    + extended_query("select 1")
    + SYNC,
    "a copy": query("copy things from stdin") + copy_data(b"1\n2\n"),
    "a copy by a batch": parse("", "copy things from stdin") + bind("", "") + execute() + copy_data(b"1\n"),
    "waiting for a lock": query("begin; insert into things values (1); select pg_advisory_xact_lock(77)"),
}


@pytest.mark.parametrize("leave", LEAVES)
@pytest.mark.parametrize("middle", MIDDLES.values(), ids=MIDDLES)
async def test_of_a_client_that_left_in_the_middle_nothing_is_left(
    one_server_connection: Pooler, three_clients: list[ProtocolClient], leave: object, middle: bytes
) -> None:
    assert callable(leave)
    client, other, _ = three_clients
    await one_server_connection.superuser.execute("select pg_advisory_lock(77)")
    client.send(middle)
    started_at = """select exists (select from pg_stat_activity where datname = $1 and pid <> pg_backend_pid()
                              and (state = 'active' or state like 'idle in transaction%') and query <> 'DISCARD ALL')"""
    await one_server_connection.wait_until(started_at, one_server_connection.database)
    other.send(query(COUNT))
    leave(client)
    assert (await other.read_reply()).value == "0"
    await other.execute("begin", "lock table things", "insert into things values (9)", "commit")
    assert await other.fetch_value("select sum(id) from things") == "9"


async def test_half_a_close_lets_the_answers_come(three_clients: list[ProtocolClient]) -> None:
    """Terminate directly after a query: Postgres runs the query first."""
    client, other, _ = three_clients
    client.send(
        query("insert into things values (1)"), extended_query("insert into things values (2)"), SYNC, b"X\0\0\0\4"
    )
    assert (await client.read_reply()).tags == ["INSERT 0 1"]
    assert (await client.read_reply()).tags == ["INSERT 0 1"]
    assert await client.wire.reader.read() == b""
    assert await other.fetch_value(COUNT) == "2"


async def test_the_query_of_a_lost_client_is_cancelled(
    one_server_connection: Pooler, three_clients: list[ProtocolClient]
) -> None:
    client, other, _ = three_clients
    client.send(query(LONG))
    await one_server_connection.wait_until_running(LONG)
    client.reset_connection()
    await one_server_connection.wait_until("select not exists (select from pg_stat_activity where query = $1)", LONG)
    assert await other.fetch_value("select 1") == "1"


async def test_members_that_die_while_nobody_has_them_are_not_missed(
    one_server_connection: Pooler, three_clients: list[ProtocolClient]
) -> None:
    client, other, _ = three_clients
    await client.request(parse("s", "select $1::text"), SYNC)
    await client.execute("set app.tenant = 'a'", "set timezone = 'Asia/Tokyo'")
    for _ in range(3):
        await one_server_connection.kill_server_connections()
        assert (await client.request(bind_and_execute("s", "still here"), SYNC)).value == "still here"
        assert await client.fetch_value("select current_setting('timezone')") == "Asia/Tokyo"
        await one_server_connection.kill_server_connections()
        assert await other.fetch_value("show timezone") != "Asia/Tokyo"


INSERT = query("insert into things values (1)")
FIRST_WORDS = {
    "a query": INSERT,
    "two": INSERT + INSERT,
    "a batch": extended_query("insert into things values (1)") + SYNC,
    "a name that is taken": INSERT + parse("s", "select 2") + SYNC + INSERT,
    "a name that is taken by itself": INSERT + parse("t", "select 2") + parse("t", "select 3") + SYNC + INSERT,
    "a name that is unknown": INSERT + bind_and_execute("nothing") + SYNC + INSERT,
    "a statement": bind_and_execute("s") + SYNC + INSERT,
    "a statement closed and made": INSERT
    + close("S", "s")
    + parse("s", "select 3")
    + bind_and_execute("s")
    + SYNC
    + bind_and_execute("s")
    + SYNC,
    "a transaction": query("begin") + INSERT + query("commit"),
    "a copy": query("copy things from stdin") + copy_data(b"1\n") + COPY_DONE + INSERT,
}


@pytest.mark.parametrize("sql", FIRST_WORDS.values(), ids=FIRST_WORDS)
async def test_a_death_that_is_unnoticed_until_a_client_speaks_costs_none_of_its_words(
    one_server_connection: Pooler, three_clients: list[ProtocolClient], sql: bytes
) -> None:
    client, other, _ = three_clients
    received = []
    for dies in (False, True, True):
        await client.request(close("S", "s"), close("S", "t"), parse("s", "select 1"), SYNC)
        await client.execute("set app.tenant = 'a'", "truncate things")
        if dies:
            await one_server_connection.kill_unnoticed()
        kinds = [reply.message_types for reply in await client.request_all(sql)]
        received.append((kinds, await other.fetch_value(COUNT)))
    assert received[1:] == received[:1] * 2


async def test_who_speaks_while_a_member_dies_is_served_or_told(one_server_connection: Pooler) -> None:
    """The gateway has not noticed yet that it is ending; it may or may not have read the messages."""
    clients = await one_server_connection.connect_many(2)
    for _ in range(20):
        await clients[0].fetch_value("select 1")
        await one_server_connection.terminate_server_connections()
        for number, client in enumerate(clients):
            try:
                assert await client.fetch_value("select 'served'") == "served"
            except ConnectionEnded as ended:
                assert ended.args[0].sqlstate == "57P01"
                clients[number] = await one_server_connection.connect()


async def test_a_transaction_whose_member_dies_is_told_so_and_the_others_go_on(pooler: Pooler) -> None:
    pooler.configure(servers=2, servers_per_pool=2)
    client, other = await pooler.connect_many(2)
    await client.execute("create table things (id integer)", "begin", "insert into things values (1)")
    await other.execute("begin", "insert into things values (2)")
    server = int(await client.fetch_value("select pg_backend_pid()") or 0)
    await pooler.superuser.execute("select pg_terminate_backend($1)", server)
    client.send(query("insert into things values (3)"))
    error = await client.read_error()
    assert (error.severity, error.sqlstate[:3]) == ("FATAL", "57P")
    await other.execute("commit")
    assert await other.fetch_value("select sum(id) from things") == "2"


async def test_a_query_whose_member_dies_is_told_so_and_who_waits_is_served(
    one_server_connection: Pooler, three_clients: list[ProtocolClient]
) -> None:
    client, other, _ = three_clients
    client.send(query(LONG))
    await one_server_connection.wait_until_running(LONG)
    other.send(query("select 'served'"))
    await one_server_connection.kill_server_connections()
    assert (await client.read_error()).sqlstate[:3] == "57P"
    assert (await other.read_reply()).value == "served"
