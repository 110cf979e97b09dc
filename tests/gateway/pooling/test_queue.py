"""The queue for server connections, and the timeouts of servers and clients."""

import asyncio

from support.pooler import Pooler
from support.protocol_client import ProtocolClient
from support.protocol_messages import COPY_DONE, SYNC, bind_and_execute, copy_data, parse, query

LONG = "select pg_sleep(600)"
COUNT = "select count(*) from things"


async def test_who_waits_too_long_is_told_what_to_do(pooler: Pooler) -> None:
    pooler.configure(servers=1, servers_per_pool=1, wait_seconds=0.3)
    holder, client, patient = await pooler.connect_many(3)
    await holder.execute("begin")
    client.send(query("select 1"))
    error = await client.read_error()
    assert (error.severity, error.sqlstate) == ("FATAL", "53300")
    assert error.message
    assert error.hint
    patient.send(query("select 'served'"))
    await holder.execute("commit")
    assert (await patient.read_reply()).value == "served"


async def test_who_waits_is_served_in_order(one_server_connection: Pooler) -> None:
    holder, *waiting = await one_server_connection.connect_many(9)
    await holder.execute("create table served (id serial, client integer)", "begin")
    for number, client in enumerate(waiting):
        client.send(query(f"insert into served (client) values ({number})"))
        await asyncio.sleep(0.02)
    holder.send(query("commit"), query("insert into served (client) values (99)"))
    for client in waiting:
        assert (await client.read_reply()).tags == ["INSERT 0 1"]
    assert (await holder.read_reply()).tags == ["COMMIT"]
    assert (await holder.read_reply()).tags == ["INSERT 0 1"]
    order = await holder.query("select client from served where client < 99 order by id")
    assert order.rows == [(str(number),) for number in range(len(waiting))]


async def test_one_who_is_always_busy_does_not_keep_the_others_waiting(one_server_connection: Pooler) -> None:
    busy, other = await one_server_connection.connect_many(2)
    busy.send(query("select pg_sleep(0.05)") * 40)
    await asyncio.sleep(0.1)
    assert await other.fetch_value("select 'served'") == "served"
    assert (await busy.read_reply()).tags == ["SELECT 1"]
    assert len(busy.received) < 39 * 4


async def test_who_leaves_the_queue_is_not_served_and_others_are(
    one_server_connection: Pooler, three_clients: list[ProtocolClient]
) -> None:
    holder, client, third = three_clients
    await holder.execute("begin")
    client.send(query("insert into things values (1)"))
    third.send(query("insert into things values (2)"))
    await asyncio.sleep(0.05)
    client.reset_connection()
    await asyncio.sleep(0.05)
    await holder.execute("commit")
    assert (await third.read_reply()).tags == ["INSERT 0 1"]
    assert await holder.fetch_value("select sum(id) from things") == "2"


async def test_an_idle_transaction_ends_after_its_time(pooler: Pooler) -> None:
    pooler.configure(servers=1, servers_per_pool=1, idle_transaction_seconds=0.3)
    client, other = await pooler.connect_many(2)
    await client.execute("create table things (id integer)", "begin", "insert into things values (1)")
    other.send(query(COUNT))
    error = await client.read_error()
    assert (error.severity, error.sqlstate) == ("FATAL", "25P03")
    assert (await other.read_reply()).value == "0"
    await other.execute("begin", "select pg_sleep(0.8)", "commit")  # busy is not idle


async def test_an_idle_client_is_let_go_after_its_time(pooler: Pooler) -> None:
    pooler.configure(servers=1, servers_per_pool=1, client_idle_seconds=0.3)
    client, other = await pooler.connect_many(2)
    await other.execute("begin", "select pg_sleep(0.6)", "commit")
    error = await client.read_error()
    assert (error.severity, error.sqlstate) == ("FATAL", "57P05")
    assert (await other.read_error()).sqlstate == "57P05"


async def test_members_that_rest_or_are_old_are_closed_and_clients_see_nothing(pooler: Pooler) -> None:
    pooler.configure(servers=1, servers_per_pool=1, idle_seconds=0.3)
    client = await pooler.connect()
    await client.request(parse("s", "select 'still here'"), SYNC)
    await pooler.wait_until_no_server_connections()
    assert (await client.request(bind_and_execute("s"), SYNC)).value == "still here"


async def test_a_member_that_is_old_is_replaced_between_transactions(pooler: Pooler) -> None:
    pooler.configure(servers=1, servers_per_pool=1, lifetime_seconds=0.3)
    client = await pooler.connect()
    await client.execute("begin")
    first = await client.fetch_value("select pg_backend_pid()")
    await client.execute("select pg_sleep(0.5)")
    assert await client.fetch_value("select pg_backend_pid()") == first
    await client.execute("commit")
    assert await client.fetch_value("select pg_backend_pid()") != first


async def test_there_are_never_more_members_than_allowed(pooler: Pooler) -> None:
    pooler.configure(servers=3, servers_per_pool=2)
    role = f"{pooler.database}_app"
    await pooler.superuser.execute(f"create role {role} login superuser")
    clients = [await pooler.connect(**({"user": role} if number % 2 else {})) for number in range(12)]
    count_query = (
        "select count(*) from pg_stat_activity where datname = current_database() and usename in ('{0}', 'store')"
    )

    async def run_transactions(client: ProtocolClient) -> None:
        for _ in range(5):
            highest = int(await client.fetch_value(count_query.format(role)) or 0)
            assert highest <= 3 + 1  # and the superuser session
            await client.execute("begin", "select pg_sleep(0.005)", "commit")

    await asyncio.gather(*(run_transactions(client) for client in clients))


async def test_a_copy_can_be_long_and_others_wait_for_its_end(three_clients: list[ProtocolClient]) -> None:
    client, other, _ = three_clients
    client.send(query("copy things from stdin"), copy_data(b"1\n"))
    await client.read_until("G")
    other.send(query(COUNT))
    assert await other.is_silent(0.2)
    client.send(copy_data(b"2\n"), COPY_DONE)
    assert (await client.read_reply()).tags == ["COPY 2"]
    assert (await client.query(COUNT)).value == "2"
