"""Who waits for a member and for how long, and how long a member or a client may rest."""

import asyncio

from gateway.pooling.phrases import COPY_DONE, SYNC, copy_data, parse, query, use
from gateway.pooling.pooler import Pooler
from gateway.pooling.speaking import Speaker

LONG = "select pg_sleep(600)"
COUNT = "select count(*) from things"


async def test_who_waits_too_long_is_told_what_to_do(pooler: Pooler) -> None:
    pooler.set(servers=1, servers_per_pool=1, wait_seconds=0.3)
    holder, client, patient = await pooler.clients(3)
    await holder.does("begin")
    client.say(query("select 1"))
    trouble = await client.trouble()
    assert (trouble.severity, trouble.code) == ("FATAL", "53300")
    assert trouble.message
    assert trouble.hint
    patient.say(query("select 'served'"))
    await holder.does("commit")
    assert (await patient.answer()).value == "served"


async def test_who_waits_is_served_in_order(one_member: Pooler) -> None:
    holder, *waiting = await one_member.clients(9)
    await holder.does("create table served (id serial, client integer)", "begin")
    for number, client in enumerate(waiting):
        client.say(query(f"insert into served (client) values ({number})"))
        await asyncio.sleep(0.02)
    holder.say(query("commit"), query("insert into served (client) values (99)"))
    for client in waiting:
        assert (await client.answer()).tags == ["INSERT 0 1"]
    assert (await holder.answer()).tags == ["COMMIT"]
    assert (await holder.answer()).tags == ["INSERT 0 1"]
    order = await holder.query("select client from served where client < 99 order by id")
    assert order.rows == [(str(number),) for number in range(len(waiting))]


async def test_one_who_is_always_busy_does_not_keep_the_others_waiting(one_member: Pooler) -> None:
    busy, other = await one_member.clients(2)
    busy.say(query("select pg_sleep(0.05)") * 40)
    await asyncio.sleep(0.1)
    assert await other.value("select 'served'") == "served"
    assert (await busy.answer()).tags == ["SELECT 1"]
    assert len(busy.heard) < 39 * 4


async def test_who_leaves_the_queue_is_not_served_and_others_are(one_member: Pooler, three: list[Speaker]) -> None:
    holder, client, third = three
    await holder.does("begin")
    client.say(query("insert into things values (1)"))
    third.say(query("insert into things values (2)"))
    await asyncio.sleep(0.05)
    client.drop()
    await asyncio.sleep(0.05)
    await holder.does("commit")
    assert (await third.answer()).tags == ["INSERT 0 1"]
    assert await holder.value("select sum(id) from things") == "2"


async def test_an_idle_transaction_ends_after_its_time(pooler: Pooler) -> None:
    pooler.set(servers=1, servers_per_pool=1, idle_transaction_seconds=0.3)
    client, other = await pooler.clients(2)
    await client.does("create table things (id integer)", "begin", "insert into things values (1)")
    other.say(query(COUNT))
    trouble = await client.trouble()
    assert (trouble.severity, trouble.code) == ("FATAL", "25P03")
    assert (await other.answer()).value == "0"
    await other.does("begin", "select pg_sleep(0.8)", "commit")  # busy is not idle


async def test_an_idle_client_is_let_go_after_its_time(pooler: Pooler) -> None:
    pooler.set(servers=1, servers_per_pool=1, client_idle_seconds=0.3)
    client, other = await pooler.clients(2)
    await other.does("begin", "select pg_sleep(0.6)", "commit")
    trouble = await client.trouble()
    assert (trouble.severity, trouble.code) == ("FATAL", "57P05")
    assert (await other.trouble()).code == "57P05"


async def test_members_that_rest_or_are_old_are_closed_and_clients_see_nothing(pooler: Pooler) -> None:
    pooler.set(servers=1, servers_per_pool=1, idle_seconds=0.3)
    client = await pooler.client()
    await client.ask(parse("s", "select 'still here'"), SYNC)
    await pooler.has_no_members()
    assert (await client.ask(use("s"), SYNC)).value == "still here"


async def test_a_member_that_is_old_is_replaced_between_transactions(pooler: Pooler) -> None:
    pooler.set(servers=1, servers_per_pool=1, lifetime_seconds=0.3)
    client = await pooler.client()
    await client.does("begin")
    first = await client.value("select pg_backend_pid()")
    await client.does("select pg_sleep(0.5)")
    assert await client.value("select pg_backend_pid()") == first
    await client.does("commit")
    assert await client.value("select pg_backend_pid()") != first


async def test_there_are_never_more_members_than_allowed(pooler: Pooler) -> None:
    pooler.set(servers=3, servers_per_pool=2)
    role = f"{pooler.database}_app"
    await pooler.behind.execute(f"create role {role} login superuser")
    clients = [await pooler.client(**({"user": role} if number % 2 else {})) for number in range(12)]
    asked = "select count(*) from pg_stat_activity where datname = current_database() and usename in ('{0}', 'store')"

    async def works(client: Speaker) -> None:
        for _ in range(5):
            most = int(await client.value(asked.format(role)) or 0)
            assert most <= 3 + 1  # and our own look at it
            await client.does("begin", "select pg_sleep(0.005)", "commit")

    await asyncio.gather(*(works(client) for client in clients))


async def test_a_copy_can_be_long_and_others_wait_for_its_end(three: list[Speaker]) -> None:
    client, other, _ = three
    client.say(query("copy things from stdin"), copy_data(b"1\n"))
    await client.until("G")
    other.say(query(COUNT))
    assert await other.is_silent(0.2)
    client.say(copy_data(b"2\n"), COPY_DONE)
    assert (await client.answer()).tags == ["COPY 2"]
    assert (await client.query(COUNT)).value == "2"
