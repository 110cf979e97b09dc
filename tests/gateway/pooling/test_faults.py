"""Clients that vanish, members that die: one client's trouble is never another's."""

import pytest

from bough.gateway.pooling import client as client_module
from gateway.pooling.phrases import COPY_DONE, SYNC, ask, bind, close, copy_data, execute, parse, query, use
from gateway.pooling.pooler import Pooler
from gateway.pooling.speaking import Ended, Speaker

LONG = "select pg_sleep(600)"
COUNT = "select count(*) from things"


def leave_rudely(client: Speaker) -> None:
    client.drop()


def leave_in_the_middle_of_a_message(client: Speaker) -> None:
    client.say(query("insert into things values (3)")[:-4])
    client.wire.close()


def leave_politely(client: Speaker) -> None:
    client.say(b"X\0\0\0\4")
    client.wire.close()


def leave_without_a_word(client: Speaker) -> None:
    client.wire.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who closes without a reset may still want an answer, for a while."""
    monkeypatch.setattr(client_module, "GONE_SECONDS", 0.2)


LEAVES = [leave_rudely, leave_in_the_middle_of_a_message, leave_politely, leave_without_a_word]
MIDDLES = {
    "a transaction": query("begin; insert into things values (1); lock table things"),
    "a failed transaction": query("begin; insert into things values (1); select 1/0"),
    "a batch": ask("insert into things values (1)") + ask("lock table things") + b"H\0\0\0\4",
    "a query": query("begin; insert into things values (1)") + query(LONG),
    "a query by itself": query(f"insert into things values (1); {LONG}"),
    "a batch that lasts": ask("insert into things values (1)") + ask(LONG) + SYNC + ask("select 1") + SYNC,
    "a copy": query("copy things from stdin") + copy_data(b"1\n2\n"),
    "a copy by a batch": parse("", "copy things from stdin") + bind("", "") + execute() + copy_data(b"1\n"),
    "waiting for a lock": query("begin; insert into things values (1); select pg_advisory_xact_lock(77)"),
}


@pytest.mark.parametrize("leave", LEAVES)
@pytest.mark.parametrize("middle", MIDDLES.values(), ids=MIDDLES)
async def test_of_a_client_that_left_in_the_middle_nothing_is_left(
    one_member: Pooler, three: list[Speaker], leave: object, middle: bytes
) -> None:
    assert callable(leave)
    client, other, _ = three
    await one_member.behind.execute("select pg_advisory_lock(77)")
    client.say(middle)
    began = """select exists (select from pg_stat_activity where datname = $1 and pid <> pg_backend_pid()
                              and (state = 'active' or state like 'idle in transaction%') and query <> 'DISCARD ALL')"""
    await one_member.waits_until(began, one_member.database)
    other.say(query(COUNT))
    leave(client)
    assert (await other.answer()).value == "0"
    await other.does("begin", "lock table things", "insert into things values (9)", "commit")
    assert await other.value("select sum(id) from things") == "9"


async def test_half_a_close_lets_the_answers_come(three: list[Speaker]) -> None:
    """Terminate right behind a query: Postgres runs it before it reads the goodbye."""
    client, other, _ = three
    client.say(query("insert into things values (1)"), ask("insert into things values (2)"), SYNC, b"X\0\0\0\4")
    assert (await client.answer()).tags == ["INSERT 0 1"]
    assert (await client.answer()).tags == ["INSERT 0 1"]
    assert await client.wire.reader.read() == b""
    assert await other.value(COUNT) == "2"


async def test_the_query_of_a_lost_client_is_cancelled(one_member: Pooler, three: list[Speaker]) -> None:
    client, other, _ = three
    client.say(query(LONG))
    await one_member.runs(LONG)
    client.drop()
    await one_member.waits_until("select not exists (select from pg_stat_activity where query = $1)", LONG)
    assert await other.value("select 1") == "1"


async def test_members_that_die_while_nobody_has_them_are_not_missed(one_member: Pooler, three: list[Speaker]) -> None:
    client, other, _ = three
    await client.ask(parse("s", "select $1::text"), SYNC)
    await client.does("set app.tenant = 'a'", "set timezone = 'Asia/Tokyo'")
    for _ in range(3):
        await one_member.kill_members()
        assert (await client.ask(use("s", "still here"), SYNC)).value == "still here"
        assert await client.value("select current_setting('timezone')") == "Asia/Tokyo"
        await one_member.kill_members()
        assert await other.value("show timezone") != "Asia/Tokyo"


INSERT = query("insert into things values (1)")
FIRST_WORDS = {
    "a query": INSERT,
    "two": INSERT + INSERT,
    "a batch": ask("insert into things values (1)") + SYNC,
    "a name that is taken": INSERT + parse("s", "select 2") + SYNC + INSERT,
    "a name that is taken by itself": INSERT + parse("t", "select 2") + parse("t", "select 3") + SYNC + INSERT,
    "a name that is unknown": INSERT + use("nothing") + SYNC + INSERT,
    "a statement": use("s") + SYNC + INSERT,
    "a statement closed and made": INSERT
    + close("S", "s")
    + parse("s", "select 3")
    + use("s")
    + SYNC
    + use("s")
    + SYNC,
    "a transaction": query("begin") + INSERT + query("commit"),
    "a copy": query("copy things from stdin") + copy_data(b"1\n") + COPY_DONE + INSERT,
}


@pytest.mark.parametrize("words", FIRST_WORDS.values(), ids=FIRST_WORDS)
async def test_a_death_that_is_unnoticed_until_a_client_speaks_costs_none_of_its_words(
    one_member: Pooler, three: list[Speaker], words: bytes
) -> None:
    client, other, _ = three
    heard = []
    for dies in (False, True, True):
        await client.ask(close("S", "s"), close("S", "t"), parse("s", "select 1"), SYNC)
        await client.does("set app.tenant = 'a'", "truncate things")
        if dies:
            await one_member.kill_unnoticed()
        kinds = [answer.kinds for answer in await client.asks(words)]
        heard.append((kinds, await other.value(COUNT)))
    assert heard[1:] == heard[:1] * 2


async def test_who_speaks_while_a_member_dies_is_served_or_told(one_member: Pooler) -> None:
    """Nobody has seen yet that it dies; it may have read what was said, or not."""
    clients = await one_member.clients(2)
    for _ in range(20):
        await clients[0].value("select 1")
        await one_member.start_killing()
        for number, client in enumerate(clients):
            try:
                assert await client.value("select 'served'") == "served"
            except Ended as ended:
                assert ended.args[0].code == "57P01"
                clients[number] = await one_member.client()


async def test_a_transaction_whose_member_dies_is_told_so_and_the_others_go_on(pooler: Pooler) -> None:
    pooler.set(servers=2, servers_per_pool=2)
    client, other = await pooler.clients(2)
    await client.does("create table things (id integer)", "begin", "insert into things values (1)")
    await other.does("begin", "insert into things values (2)")
    member = int(await client.value("select pg_backend_pid()") or 0)
    await pooler.behind.execute("select pg_terminate_backend($1)", member)
    client.say(query("insert into things values (3)"))
    trouble = await client.trouble()
    assert (trouble.severity, trouble.code[:3]) == ("FATAL", "57P")
    await other.does("commit")
    assert await other.value("select sum(id) from things") == "2"


async def test_a_query_whose_member_dies_is_told_so_and_who_waits_is_served(
    one_member: Pooler, three: list[Speaker]
) -> None:
    client, other, _ = three
    client.say(query(LONG))
    await one_member.runs(LONG)
    other.say(query("select 'served'"))
    await one_member.kill_members()
    assert (await client.trouble()).code[:3] == "57P"
    assert (await other.answer()).value == "served"
