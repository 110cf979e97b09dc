"""The pooled host behaves like the direct one, with other clients between any two transactions."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.pooling.message_comparison import normalize_message
from gateway.pooling.scripts.copy import COPY_SCRIPTS, FUNCTION_CALL_SCRIPTS
from gateway.pooling.scripts.extended_query import EXTENDED_QUERY_SCRIPTS
from gateway.pooling.scripts.prepared_statements import PREPARED_STATEMENT_SCRIPTS
from gateway.pooling.scripts.script import SETUP, Script, Write
from gateway.pooling.scripts.simple_query import SIMPLE_QUERY_SCRIPTS
from support.pooler import Pooler
from support.protocol_client import ConnectionEnded, ProtocolClient
from support.protocol_messages import (
    COPY_DONE,
    FLUSH,
    SYNC,
    bind,
    bind_and_execute,
    close,
    copy_data,
    count_ready_for_query,
    execute,
    extended_query,
    message,
    parse,
    query,
)

SCRIPTS = {
    f"{kind}: {name}": script
    for kind, scripts in {
        "simple": SIMPLE_QUERY_SCRIPTS,
        "batch": EXTENDED_QUERY_SCRIPTS,
        "statement": PREPARED_STATEMENT_SCRIPTS,
        "copy": COPY_SCRIPTS,
        "call": FUNCTION_CALL_SCRIPTS,
    }.items()
    for name, script in scripts.items()
}
Writer = Callable[[ProtocolClient, bytes], Awaitable[None]]
Interruption = Callable[[], Awaitable[None]]


async def at_once(connection: ProtocolClient, data: bytes) -> None:
    connection.send(data)


async def byte_by_byte(connection: ProtocolClient, data: bytes) -> None:
    for byte in data:
        connection.send(bytes([byte]))
        await asyncio.sleep(0)


async def run_script(connection: ProtocolClient, script: Script, write: Writer, between: Interruption) -> list[Any]:
    """Return the replies to each write; other clients run in between if no transaction is open."""
    replies_of_writes = []
    for data, count in script:
        connection.received.clear()
        await write(connection, data)
        status = [(await connection.read_reply()).status for _ in range(count)]
        replies_of_writes.append([normalize_message(each) for each in connection.received])
        if status[-1:] == ["I"]:
            await between()
    return replies_of_writes


async def do_nothing() -> None:
    return


async def leave_state(other: ProtocolClient) -> None:
    """A client that leaves all possible state behind."""
    names = b"".join(close("S", name) + parse(name, f"select 'of another, {name}'") for name in ("s", "t", "my"))
    await other.request(names, bind_and_execute("s"), SYNC)
    made = "drop table if exists pg_temp.things; create temp table things (id text); declare c cursor for select 1"
    await other.request(query(f"begin; {made}; commit"))
    await other.request_all(
        query("set timezone = 'Europe/Rome'; set search_path = nowhere"), extended_query("select 1/0"), SYNC
    )
    await other.request(parse("", "select 'of another'"), SYNC)


async def fresh_tables(pooler: Pooler) -> None:
    await pooler.superuser.execute("drop schema public cascade; create schema public;" + SETUP)


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
async def test_the_answers_are_those_of_the_direct_host(one_server_connection: Pooler, script: Script) -> None:
    """Also for an undisturbed client, which keeps its server connection, and for one that always gets a new one."""
    await fresh_tables(one_server_connection)
    expected = await run_script(await one_server_connection.connect_directly(), script, at_once, do_nothing)
    other = await one_server_connection.connect()
    ways: list[tuple[Writer, Interruption]] = [
        (at_once, do_nothing),
        (at_once, one_server_connection.kill_server_connections),
        (at_once, lambda: leave_state(other)),
        (byte_by_byte, lambda: leave_state(other)),
    ]
    for write, between in ways:
        await fresh_tables(one_server_connection)
        assert await run_script(await one_server_connection.connect(), script, write, between) == expected
        assert await other.fetch_value("select 'served'") == "served"


async def test_a_write_may_be_cut_anywhere(one_server_connection: Pooler) -> None:
    """Once at each byte, so also in the middle of each length and name."""
    await fresh_tables(one_server_connection)
    script = (
        (parse("s", "select $1::text") + bind_and_execute("s", "a") + SYNC)
        + (query("begin; insert into things values (1)") + extended_query("table things") + SYNC + query("rollback"))
        + (query("copy things from stdin") + copy_data(b"7\tseven\n") + COPY_DONE)
        + (bind("", "s", "b") + execute() + FLUSH + close("S", "s") + SYNC + query("delete from things"))
    )
    whole = [Write(script, count_ready_for_query(script))]
    client, other = await one_server_connection.connect_many(2)
    [expected] = await run_script(client, whole, at_once, do_nothing)
    for cut in range(1, len(script)):
        client.received.clear()
        client.send(script[:cut])
        await asyncio.sleep(0.001)
        client.send(script[cut:])
        for _ in range(whole[0].replies):
            await client.read_reply()
        assert [normalize_message(each) for each in client.received] == expected, cut
        if cut % 20 == 0:
            await leave_state(other)


async def test_what_was_flushed_is_answered_and_the_member_stays_until_the_end(one_server_connection: Pooler) -> None:
    client, other = await one_server_connection.connect_many(2)
    client.send(parse("s", "select $1::text"), bind_and_execute("s", "a"), FLUSH)
    assert (await client.read_until("C")).rows == [("a",)]
    other.send(query("select 'other'"))
    client.send(bind_and_execute("s", "b"), FLUSH)
    assert (await client.read_until("C")).rows == [("b",)]
    assert (await client.request(SYNC)).status == "I"
    assert (await other.read_reply()).value == "other"


@pytest.mark.parametrize("before", [b"", query("begin"), parse("s", "select 1")])
@pytest.mark.parametrize("wrong", [message(b"y", b"what"), b"S\0\0\0\0", b"E\0\0\0\3"])
async def test_a_message_that_there_is_not_ends_the_connection_and_no_other(
    one_server_connection: Pooler, before: bytes, wrong: bytes
) -> None:
    client, other = await one_server_connection.connect_many(2)
    await other.query("select 1")
    client.send(before + wrong)
    assert (await client.read_error()).sqlstate == "08P01"
    assert await other.fetch_value("select 2") == "2"


@pytest.mark.parametrize("length", [0, 3, 0x7FFFFFFF, 0xFFFFFFFF])
async def test_a_length_that_cannot_be_ends_the_connection_and_no_other(
    one_server_connection: Pooler, length: int
) -> None:
    client, other = await one_server_connection.connect_many(2)
    client.send(query("begin"))
    await client.read_reply()
    client.send(b"Q" + length.to_bytes(4) + b"select 1\0")
    assert (await client.read_error()).sqlstate in ("08P01", "57P02")  # Postgres itself sends no reply
    assert await other.fetch_value("select 2") == "2"


async def test_a_message_cut_short_by_its_own_length_is_an_error_for_its_client_only(
    one_server_connection: Pooler,
) -> None:
    """Postgres reads on up to the Sync; the gateway may also end the connection."""
    other = await one_server_connection.connect()
    for kind, body in (
        (b"B", b""),
        (b"B", b"\0"),
        (b"B", b"\0s"),
        (b"P", b"s"),
        (b"D", b"S"),
        (b"C", b""),
        (b"Q", b""),
    ):
        client = await one_server_connection.connect()
        client.send(parse("s", "select 1"), message(kind, body), SYNC)
        try:
            code = (await client.read_until("EZ")).sqlstate
        except ConnectionEnded as ended:
            code = ended.args[0].sqlstate
        assert code == "08P01"
        assert await other.fetch_value("select 1") == "1"
