"""A cancel hits the query of its own client, wherever that is, and nothing else."""

import asyncio

from gateway.pooling.phrases import COPY_DONE, SYNC, ask, copy_data, query
from gateway.pooling.pooler import Pooler
from gateway.pooling.speaking import Speaker

LONG = "select pg_sleep(600)"
COUNT = "select count(*) from things"


async def test_a_query_is_cancelled(one_member: Pooler, three: list[Speaker]) -> None:
    client, other, _ = three
    for _ in range(3):
        client.say(query(LONG))
        await one_member.runs(LONG)
        await one_member.cancel(client)
        answer = await client.answer()
        assert (answer.code, answer.status) == ("57014", "I")
        assert await other.value("select 1") == "1"
        assert await client.value("select 2") == "2"


async def test_a_cancelled_query_in_a_transaction_aborts_it(one_member: Pooler, three: list[Speaker]) -> None:
    client, other, _ = three
    await client.does("begin", "insert into things values (1)")
    client.say(ask(LONG), SYNC)
    await one_member.runs(LONG)
    await one_member.cancel(client)
    answer = await client.answer()
    assert (answer.code, answer.status) == ("57014", "E")
    await client.does("rollback")
    assert await other.value(COUNT) == "0"


async def test_a_cancel_of_an_idle_client_hits_nobody(one_member: Pooler, three: list[Speaker]) -> None:
    """The member that it had is another's now."""
    client, other, _ = three
    await client.value("select 1")
    other.say(query("select pg_sleep(1)"))
    await one_member.runs("select pg_sleep(1)")
    for _ in range(20):
        await one_member.cancel(client)
    assert (await other.answer()).code is None


async def test_cancels_in_a_hurry_hit_only_their_own_client(
    one_member: Pooler, three: list[Speaker], long: bool
) -> None:
    """One is cancelled all the time, right when it ends; the others never see it."""
    client, *others = three
    short = "select pg_sleep(0.002)"

    async def is_cancelled() -> None:
        for _ in range(300 if long else 60):
            client.say(query(short))
            answer, _ = await asyncio.gather(client.answer(), one_member.cancel(client))
            assert answer.code in (None, "57014")

    async def is_not(other: Speaker) -> None:
        while not task.done():
            assert (await other.query(short)).code is None
            assert (await other.extended(short)).code is None

    task = asyncio.create_task(is_cancelled())
    await asyncio.gather(task, *(is_not(other) for other in others))


async def test_who_waits_for_a_member_can_be_cancelled(one_member: Pooler, three: list[Speaker]) -> None:
    holder, client, third = three
    await holder.does("begin")
    client.say(query("insert into things values (1)"))
    third.say(query("insert into things values (2)"))
    await asyncio.sleep(0.05)
    await one_member.cancel(client)
    answer = await client.answer()
    assert (answer.code, answer.status) == ("57014", "I")
    await holder.does("insert into things values (4)", "commit")
    assert (await third.answer()).tags == ["INSERT 0 1"]
    assert await client.value("select sum(id) from things") == "6"


async def test_a_batch_that_waits_is_cancelled_as_a_whole_and_what_follows_it_is_not(
    one_member: Pooler, three: list[Speaker]
) -> None:
    holder, client, _ = three
    await holder.does("begin")
    client.say(ask("insert into things values (1)"), ask("select 1"), SYNC, query("insert into things values (2)"))
    await asyncio.sleep(0.05)
    await one_member.cancel(client)
    assert (await client.answer()).code == "57014"
    await holder.does("commit")
    assert (await client.answer()).tags == ["INSERT 0 1"]
    assert await holder.value("select sum(id) from things") == "2"


async def test_a_copy_that_waits_is_cancelled_with_its_rows(one_member: Pooler, three: list[Speaker]) -> None:
    holder, client, _ = three
    await holder.does("begin")
    for words in (query("copy things from stdin") + copy_data(b"1\n") + COPY_DONE, ask("select 1") + SYNC):
        client.say(words)
        await asyncio.sleep(0.05)
        await one_member.cancel(client)
        answer = await client.answer()
        assert (answer.kinds, answer.code) == ("EZ", "57014")
    await holder.does("commit")
    assert await client.value(COUNT) == "0"
