"""Prepared statements belong to the client that named them, on whatever member it comes to be."""

import asyncio

import psycopg
import pytest

from gateway.doorway import PASSWORD, ROLE
from gateway.pooling.phrases import FLUSH, SYNC, close, describe, parse, query, use
from gateway.pooling.pooler import Pooler
from gateway.pooling.speaking import POOLED, Speaker

COUNT = "select count(*) from pg_prepared_statements"
CHANGED = "cached plan must not change result type"


async def test_one_name_is_another_statement_for_each(three: list[Speaker]) -> None:
    for number, client in enumerate(three):
        assert not (await client.ask(parse("s", f"select 'of {number}', $1::text"), SYNC)).troubles
    for turn in range(3):
        for number, client in enumerate(three):
            assert (await client.ask(use("s", str(turn)), SYNC)).rows == [(f"of {number}", str(turn))]


async def test_the_unnamed_statement_is_each_clients_own(three: list[Speaker]) -> None:
    for number, client in enumerate(three):
        await client.ask(parse("", f"select {number}"), SYNC)
    for _ in range(2):
        for number, client in enumerate(three):
            assert (await client.ask(use(""), SYNC)).value == str(number)


async def test_a_name_that_is_taken_or_unknown_is_told_as_the_client_said_it(three: list[Speaker]) -> None:
    one, other, _ = three
    await one.ask(parse("order-7", "select 1"), SYNC)
    await other.query("select 1")
    taken = (await one.ask(parse("order-7", "select 1"), SYNC)).troubles[0]
    assert (taken.code, taken.message) == ("42P05", 'prepared statement "order-7" already exists')
    unknown = (await other.ask(use("order-7"), SYNC)).troubles[0]
    assert (unknown.code, unknown.message) == ("26000", 'prepared statement "order-7" does not exist')
    assert (await one.ask(use("order-7"), SYNC)).value == "1"


async def test_an_unknown_name_leaves_those_that_are_known_where_they_are(one_member: Pooler) -> None:
    """In a transaction that has failed they could not be made again."""
    client = await one_member.client()
    await client.ask(parse("s", "begin"), SYNC)
    await client.ask(use("s"), SYNC)
    assert (await client.ask(describe("S", "unknown"), SYNC)).code == "26000"
    assert not (await client.ask(describe("S", "s"), SYNC)).troubles


@pytest.mark.parametrize("words", ["deallocate all", "discard all", "deallocate s"])
@pytest.mark.parametrize("by", ["simple", "extended"])
async def test_what_one_throws_away_the_others_keep(three: list[Speaker], words: str, by: str) -> None:
    one, other, third = three
    for client in three:
        await client.ask(parse("s", "select 'the same'"), SYNC)
    answer = await (one.query(words) if by == "simple" else one.extended(words))
    assert answer.tags == [words.upper().removesuffix(" S")]
    assert (await other.ask(use("s"), SYNC)).value == "the same"
    assert (await one.ask(use("s"), SYNC)).code == "26000"
    assert (await third.ask(use("s"), SYNC)).value == "the same"


async def test_statements_that_nobody_uses_any_longer_leave_the_member(three: list[Speaker]) -> None:
    """Cleaning is cheaper without them; who comes back finds his."""
    text = f"select 'kept', '{'long' * 30}'"
    for client in three:
        await client.ask(parse("s", text), SYNC)
    counts = [await client.value(COUNT) for _ in range(10) for client in three[1:]]
    assert counts[0] == "1"
    assert counts[-1] == "0"
    for _ in range(10):
        for client in three:
            assert not (await client.ask(use("s"), SYNC)).troubles
        assert await three[0].value(COUNT) == "1"


async def test_a_statement_stays_for_those_who_have_it_too(three: list[Speaker]) -> None:
    """And is made again where that takes no longer."""
    made = "select prepare_time from pg_prepared_statements"
    for text, stays in (("select 'short'", False), (f"select 'long', '{'long' * 30}'", True)):
        one, other = three[:2]
        await one.ask(parse(text, text), SYNC)
        await other.ask(parse(text, text), SYNC)
        first = await other.value(made)
        await one.ask(use(text), SYNC)
        assert (await one.value(made) == first) is stays


async def test_after_a_table_was_altered_a_statement_is_made_anew(three: list[Speaker]) -> None:
    """Also under the same name and with the same text, and for those who come new with that text."""
    one, other, third = three
    text = "select * from things"
    await one.does("insert into things values (1)")
    for client in (one, other):
        assert (await client.ask(parse("s", text), use("s"), SYNC)).rows == [("1",)]
    await other.does("alter table things add name text default 'new'")
    for client in (one, other):
        answer = await client.ask(use("s"), SYNC)  # a member that had it not made it from the new table
        assert answer.rows == [("1", "new")] or answer.troubles[0].message == CHANGED
        assert (await client.ask(close("S", "s"), parse("s", text), use("s"), SYNC)).rows == [("1", "new")]
    assert (await third.ask(parse("t", text), use("t"), SYNC)).rows == [("1", "new")]


async def test_who_comes_new_with_a_text_is_not_troubled_by_an_old_plan_of_another(three: list[Speaker]) -> None:
    one, other, _ = three
    text = "select * from things"
    await one.does("insert into things values (1)")
    assert (await one.ask(parse("s", text), use("s"), SYNC)).rows == [("1",)]
    await one.does("alter table things add name text default 'new'")
    answer = await other.ask(parse("s", text), describe("S", "s"), use("s"), SYNC)
    assert (answer.kinds, answer.rows) == ("1tT2DCZ", [("1", "new")])


async def test_the_same_text_means_what_the_clients_search_path_says(three: list[Speaker]) -> None:
    for number, client in enumerate(three):
        await client.does(f"create schema s{number}", f"create table s{number}.things (c{number} integer)")
        await client.does(f"insert into s{number}.things values ({number})", f"set search_path = s{number}")
    for _ in range(2):
        for number, client in enumerate(three):
            answer = await client.ask(close("S", "s"), parse("s", "select * from things"), use("s"), SYNC)
            assert answer.rows == [(str(number),)]
    for number, client in enumerate(three):
        assert (await client.ask(use("s"), SYNC)).rows == [(str(number),)]


async def test_the_same_text_with_other_types_is_another_statement(three: list[Speaker]) -> None:
    text, integer, words = "select pg_typeof($1)", 23, 25
    await three[0].ask(parse("s", text, integer), SYNC)
    await three[1].ask(parse("s", text, words), SYNC)
    for _ in range(2):
        assert (await three[0].ask(use("s", "1"), SYNC)).value == "integer"
        assert (await three[1].ask(use("s", "1"), SYNC)).value == "text"


async def test_a_temporary_table_does_not_stay_in_anybodys_statement(three: list[Speaker]) -> None:
    one, other, _ = three
    await one.does("insert into things values (1)")
    await one.does("begin", "create temp table things (id integer)")
    assert (await one.ask(parse("s", "select * from things"), use("s"), SYNC)).rows == []
    await one.does("commit")
    assert (await other.ask(parse("s", "select * from things"), use("s"), SYNC)).rows == [("1",)]
    assert (await one.ask(use("s"), SYNC)).rows == [("1",)]


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("before", [b"", describe("S", "s"), use("s")], ids=["new", "described", "used"])
@pytest.mark.parametrize(
    "others",
    [query("select 1"), parse("s", "select 1") + SYNC, parse("s", "select 2") + SYNC],
    ids=["elsewhere", "alike", "other"],
)
async def test_in_a_failed_transaction_a_statement_is_an_error_and_can_be_used_later(
    pooler: Pooler, members: int, before: bytes, others: bytes
) -> None:
    """Also on a member where it has to be made first, which cannot be done there."""
    pooler.set(servers=members, servers_per_pool=members)
    client, other, third = await pooler.clients(3)
    await client.ask(parse("s", "select 1"), SYNC)
    await client.ask(before, SYNC)
    for each in (other, third):
        await each.ask(others)
    await client.asks(query("begin"), query("select 1/0"))
    for phrase in (use("s"), describe("S", "s"), use("s")):
        assert (await client.ask(phrase, SYNC)).code == "25P02"
    await client.does("rollback")
    assert (await client.ask(use("s"), SYNC)).value == "1"


# Batches that follow one another without waiting: what became of the first is not known when the next is read.


async def test_one_that_was_never_made_is_not_found_by_the_next_batch(three: list[Speaker]) -> None:
    """Though the member has the same text for another name."""
    failed, used, described, again = await three[0].asks(
        use("nothing") + parse("t", "select 1") + SYNC,
        parse("s", "select 1") + use("t") + SYNC,
        describe("S", "t") + SYNC,
        parse("t", "select 1") + use("t") + SYNC,
    )
    assert 'statement "nothing" does not exist' in failed.troubles[0].message
    for answer in (used, described):
        assert (answer.code, answer.troubles[0].message) == ("26000", 'prepared statement "t" does not exist')
    assert again.value == "1"


async def test_one_that_was_not_closed_after_all_is_there_for_the_next_batch(three: list[Speaker]) -> None:
    await three[0].ask(parse("s", "select 1"), SYNC)
    failed, used, described = await three[0].asks(
        use("nothing") + close("S", "s") + SYNC, use("s") + SYNC, describe("S", "s") + SYNC
    )
    assert failed.code == "26000"
    assert used.value == "1"
    assert not described.troubles


@pytest.mark.parametrize(
    "ending",
    [close("S", "s") + SYNC, query("deallocate s"), parse("", "deallocate s") + use("") + SYNC],
    ids=["close", "deallocate", "deallocate prepared"],
)
async def test_one_that_ends_only_with_the_next_batch_is_gone_then(three: list[Speaker], ending: bytes) -> None:
    await three[0].ask(parse("s", "select 1"), SYNC)
    failed, taken, ended, used = await three[0].asks(
        use("nothing") + close("S", "s") + SYNC, parse("s", "select 2") + SYNC, ending, use("s") + SYNC
    )
    assert (failed.code, taken.code, used.code) == ("26000", "42P05", "26000")
    assert not ended.troubles
    assert (await three[0].ask(parse("s", "select 3"), use("s"), SYNC)).value == "3"


async def test_one_that_could_not_be_made_again_can_be_used_by_the_next_batch(pooler: Pooler) -> None:
    pooler.set(servers=1, servers_per_pool=1, statements=1)
    (client,) = await pooler.clients(1)
    await client.ask(parse("s", "select 1"), SYNC)
    await client.ask(parse("other", "select 2"), SYNC)  # the member has room for one
    failed, used = await client.asks(use("nothing") + use("s") + SYNC, use("s") + SYNC)
    assert failed.code == "26000"
    assert used.value == "1"


async def test_nothing_is_left_of_a_name_that_was_taken_and_is_closed(three: list[Speaker]) -> None:
    client = three[0]
    await client.asks(query("begin"), parse("t", "select 1") + SYNC)
    assert (await client.ask(parse("t", "select 2"), SYNC)).code == "42P05"
    _, _, used = await client.asks(query("rollback"), close("S", "t") + SYNC, use("t") + SYNC)
    assert (used.code, used.troubles[0].message) == ("26000", 'prepared statement "t" does not exist')


async def test_an_end_is_told_though_settings_changed_and_the_next_batch_waits_for_it(three: list[Speaker]) -> None:
    client, other, _ = three
    await client.does("begin", "set work_mem = '5MB'")
    ended, twice = await client.asks(parse("s", "select 1") + query("commit"), parse("s", "select 1") + SYNC)
    assert (ended.kinds, ended.tags, ended.status) == ("1CZ", ["COMMIT"], "I")
    assert (twice.kinds, twice.code) == ("EZ", "42P05")
    assert await other.value("show work_mem") == "4MB"
    assert await client.value("show work_mem") == "5MB"


@pytest.mark.parametrize("in_transaction", [False, True])
async def test_a_member_keeps_a_bounded_number(pooler: Pooler, in_transaction: bool) -> None:
    pooler.set(servers=1, servers_per_pool=1, statements=5)
    one, other = await pooler.clients(2)
    for client in (one, other):
        await client.does(*["begin"] * in_transaction)
        for number in range(30):
            assert not (await client.ask(parse(f"s{number}", f"select {number}"), SYNC)).troubles
        for number in [*range(30), *reversed(range(30))]:
            assert (await client.ask(use(f"s{number}"), SYNC)).value == str(number)
        assert 0 < int(await client.value(COUNT) or 0) <= 5
        await client.does(*["commit"] * in_transaction)
    assert (await one.ask(use("s17"), SYNC)).value == "17"


async def test_a_batch_may_use_more_than_a_member_keeps(pooler: Pooler) -> None:
    pooler.set(servers=1, servers_per_pool=1, statements=5)
    client, other = await pooler.clients(2)
    made = b"".join(parse(f"s{number}", f"select {number}") for number in range(30))
    used = b"".join(use(f"s{number}") for number in range(30))
    expected = [(str(number),) for number in range(30)]
    assert (await client.ask(made, used, SYNC)).rows == expected
    await other.ask(parse("s1", "select 'of another'"), SYNC)
    assert (await client.asks(query("begin"), used, SYNC, query("commit")))[1].rows == expected
    assert int(await client.value(COUNT) or 0) <= 5


async def test_names_that_a_driver_counts_do_not_collide(one_member: Pooler) -> None:
    """psycopg calls its first statement the same in every connection."""
    conninfo = f"host={POOLED} hostaddr=127.0.0.1 port={one_member.doorway.port} sslmode=require"
    conninfo += f" user={ROLE} password='{PASSWORD}' dbname={one_member.database}"
    sessions = [await psycopg.AsyncConnection.connect(conninfo, autocommit=True, prepare_threshold=0) for _ in range(3)]
    for turn in range(4):
        for number, session in enumerate(sessions):
            cursor = await session.execute(f"select {number} * 10 + %s::integer".encode(), (turn,))
            assert await cursor.fetchone() == (number * 10 + turn,)
    for session in sessions:
        await session.close()


async def test_what_follows_the_sync_after_an_error_is_answered(one_member: Pooler) -> None:
    """Also when the error was heard before the Sync was said."""
    client = await one_member.client()
    client.say(use("nobody"), FLUSH)
    assert (await client.until("E")).code == "26000"
    client.say(parse("s", "select 'skipped'"))
    await asyncio.sleep(0.05)
    synced, asked = await client.asks(SYNC, query("select 'asked'"))
    assert (synced.kinds, asked.value) == ("Z", "asked")
    assert (await client.ask(use("s"), SYNC)).code == "26000"


async def test_a_query_that_postgres_reads_over_frees_no_member(one_member: Pooler) -> None:
    """Its error was heard before, and there was no Sync since."""
    client, other = await one_member.clients(2)
    await client.ask(parse("", "select 'unnamed'"), SYNC)
    client.say(use("nobody"), FLUSH)
    assert (await client.until("E")).code == "26000"
    client.say(query("deallocate all"))
    other.say(query("select 'other'"))
    await asyncio.sleep(0.05)
    assert (await client.ask(SYNC)).kinds == "Z"
    assert (await other.answer()).value == "other"
    assert (await client.ask(use(""), SYNC)).value == "unnamed"


async def test_the_unnamed_statement_is_there_after_settings_were_read(one_member: Pooler) -> None:
    client = await one_member.client()
    await client.extended("set statement_timeout = '1h'")
    assert (await client.ask(use(""), SYNC)).tags == ["SET"]


async def test_what_was_to_make_room_in_a_batch_that_failed_is_still_usable(pooler: Pooler) -> None:
    pooler.set(servers=1, servers_per_pool=1, statements=2)
    client = await pooler.client()
    for name in ("a", "b"):
        await client.ask(parse(name, f"select '{name}'"), SYNC)
    failed = await client.ask(use("nobody"), parse("c", "select 'c'"), SYNC)
    assert failed.code == "26000"
    for name in ("a", "b", "a"):
        assert (await client.ask(use(name), SYNC)).value == name
