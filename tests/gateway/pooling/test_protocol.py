"""The pooled host speaks as the direct one does, though another client was there between any two transactions."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.pooling.phrases import (
    COPY_DONE,
    FLUSH,
    SYNC,
    ask,
    bind,
    close,
    copy_data,
    ends,
    execute,
    message,
    parse,
    query,
    use,
)
from gateway.pooling.pooler import Pooler
from gateway.pooling.scripts.batches import BATCHES
from gateway.pooling.scripts.copies import CALLS, COPIES
from gateway.pooling.scripts.simple import SIMPLE
from gateway.pooling.scripts.statements import STATEMENTS
from gateway.pooling.scripts.writes import SETUP, Script, Write
from gateway.pooling.shown import shown
from gateway.pooling.speaking import Ended, Speaker

SCRIPTS = {
    f"{kind}: {name}": script
    for kind, scripts in {
        "simple": SIMPLE,
        "batch": BATCHES,
        "statement": STATEMENTS,
        "copy": COPIES,
        "call": CALLS,
    }.items()
    for name, script in scripts.items()
}
Say = Callable[[Speaker, bytes], Awaitable[None]]
Visit = Callable[[], Awaitable[None]]


async def at_once(speaker: Speaker, data: bytes) -> None:
    speaker.say(data)


async def byte_by_byte(speaker: Speaker, data: bytes) -> None:
    for byte in data:
        speaker.say(bytes([byte]))
        await asyncio.sleep(0)


async def answers(speaker: Speaker, script: Script, say: Say, between: Visit) -> list[Any]:
    """What came back to each write; others come between them when no transaction is open."""
    heard = []
    for data, count in script:
        speaker.heard.clear()
        await say(speaker, data)
        status = [(await speaker.answer()).status for _ in range(count)]
        heard.append([shown(each) for each in speaker.heard])
        if status[-1:] == ["I"]:
            await between()
    return heard


async def nobody() -> None:
    return


async def visit(visitor: Speaker) -> None:
    """Someone who leaves behind whatever one can."""
    names = b"".join(close("S", name) + parse(name, f"select 'of another, {name}'") for name in ("s", "t", "my"))
    await visitor.ask(names, use("s"), SYNC)
    made = "drop table if exists pg_temp.things; create temp table things (id text); declare c cursor for select 1"
    await visitor.ask(query(f"begin; {made}; commit"))
    await visitor.asks(query("set timezone = 'Europe/Rome'; set search_path = nowhere"), ask("select 1/0"), SYNC)
    await visitor.ask(parse("", "select 'of another'"), SYNC)


async def fresh_tables(pooler: Pooler) -> None:
    await pooler.behind.execute("drop schema public cascade; create schema public;" + SETUP)


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
async def test_the_answers_are_those_of_the_direct_host(one_member: Pooler, script: Script) -> None:
    """Also for a client that nobody disturbs, which keeps its member, and for one that always gets a new one."""
    await fresh_tables(one_member)
    expected = await answers(await one_member.direct(), script, at_once, nobody)
    visitor = await one_member.client()
    ways: list[tuple[Say, Visit]] = [
        (at_once, nobody),
        (at_once, one_member.kill_members),
        (at_once, lambda: visit(visitor)),
        (byte_by_byte, lambda: visit(visitor)),
    ]
    for say, between in ways:
        await fresh_tables(one_member)
        assert await answers(await one_member.client(), script, say, between) == expected
        assert await visitor.value("select 'served'") == "served"


async def test_a_write_may_be_cut_anywhere(one_member: Pooler) -> None:
    """At each byte once, so in the middle of each length and name too."""
    await fresh_tables(one_member)
    script = (
        (parse("s", "select $1::text") + use("s", "a") + SYNC)
        + (query("begin; insert into things values (1)") + ask("table things") + SYNC + query("rollback"))
        + (query("copy things from stdin") + copy_data(b"7\tseven\n") + COPY_DONE)
        + (bind("", "s", "b") + execute() + FLUSH + close("S", "s") + SYNC + query("delete from things"))
    )
    whole = [Write(script, ends(script))]
    client, visitor = await one_member.clients(2)
    [expected] = await answers(client, whole, at_once, nobody)
    for cut in range(1, len(script)):
        client.heard.clear()
        client.say(script[:cut])
        await asyncio.sleep(0.001)
        client.say(script[cut:])
        for _ in range(whole[0].answers):
            await client.answer()
        assert [shown(each) for each in client.heard] == expected, cut
        if cut % 20 == 0:
            await visit(visitor)


async def test_what_was_flushed_is_answered_and_the_member_stays_until_the_end(one_member: Pooler) -> None:
    client, other = await one_member.clients(2)
    client.say(parse("s", "select $1::text"), use("s", "a"), FLUSH)
    assert (await client.until("C")).rows == [("a",)]
    other.say(query("select 'other'"))
    client.say(use("s", "b"), FLUSH)
    assert (await client.until("C")).rows == [("b",)]
    assert (await client.ask(SYNC)).status == "I"
    assert (await other.answer()).value == "other"


@pytest.mark.parametrize("before", [b"", query("begin"), parse("s", "select 1")])
@pytest.mark.parametrize("wrong", [message(b"y", b"what"), b"S\0\0\0\0", b"E\0\0\0\3"])
async def test_a_message_that_there_is_not_ends_the_connection_and_no_other(
    one_member: Pooler, before: bytes, wrong: bytes
) -> None:
    client, other = await one_member.clients(2)
    await other.query("select 1")
    client.say(before + wrong)
    assert (await client.trouble()).code == "08P01"
    assert await other.value("select 2") == "2"


@pytest.mark.parametrize("length", [0, 3, 0x7FFFFFFF, 0xFFFFFFFF])
async def test_a_length_that_cannot_be_ends_the_connection_and_no_other(one_member: Pooler, length: int) -> None:
    client, other = await one_member.clients(2)
    client.say(query("begin"))
    await client.answer()
    client.say(b"Q" + length.to_bytes(4) + b"select 1\0")
    assert (await client.trouble()).code in ("08P01", "57P02")  # Postgres itself says nothing to that
    assert await other.value("select 2") == "2"


async def test_a_message_cut_short_by_its_own_length_is_an_error_for_its_client_only(one_member: Pooler) -> None:
    """Postgres reads on up to the Sync; here the connection may end too."""
    other = await one_member.client()
    for kind, body in (
        (b"B", b""),
        (b"B", b"\0"),
        (b"B", b"\0s"),
        (b"P", b"s"),
        (b"D", b"S"),
        (b"C", b""),
        (b"Q", b""),
    ):
        client = await one_member.client()
        client.say(parse("s", "select 1"), message(kind, body), SYNC)
        try:
            code = (await client.until("EZ")).code
        except Ended as ended:
            code = ended.args[0].code
        assert code == "08P01"
        assert await other.value("select 1") == "1"
