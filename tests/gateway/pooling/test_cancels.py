"""A cancel reaches the query of its own client and no other."""

import asyncio

from support.pooler import Pooler
from support.protocol_client import ProtocolClient
from support.protocol_messages import COPY_DONE, SYNC, copy_data, extended_query, query

LONG = "select pg_sleep(600)"
COUNT = "select count(*) from things"


async def test_a_query_is_cancelled(one_server_connection: Pooler, three_clients: list[ProtocolClient]) -> None:
    client, other, _ = three_clients
    for _ in range(3):
        client.send(query(LONG))
        await one_server_connection.wait_until_running(LONG)
        await one_server_connection.cancel(client)
        reply = await client.read_reply()
        assert (reply.sqlstate, reply.status) == ("57014", "I")
        assert await other.fetch_value("select 1") == "1"
        assert await client.fetch_value("select 2") == "2"


async def test_a_cancelled_query_in_a_transaction_aborts_it(
    one_server_connection: Pooler, three_clients: list[ProtocolClient]
) -> None:
    client, other, _ = three_clients
    await client.execute("begin", "insert into things values (1)")
    client.send(extended_query(LONG), SYNC)
    await one_server_connection.wait_until_running(LONG)
    await one_server_connection.cancel(client)
    reply = await client.read_reply()
    assert (reply.sqlstate, reply.status) == ("57014", "E")
    await client.execute("rollback")
    assert await other.fetch_value(COUNT) == "0"


async def test_a_cancel_of_an_idle_client_hits_nobody(
    one_server_connection: Pooler, three_clients: list[ProtocolClient]
) -> None:
    """Another client has its server connection now."""
    client, other, _ = three_clients
    await client.fetch_value("select 1")
    other.send(query("select pg_sleep(1)"))
    await one_server_connection.wait_until_running("select pg_sleep(1)")
    for _ in range(20):
        await one_server_connection.cancel(client)
    assert (await other.read_reply()).sqlstate is None


async def test_cancels_in_a_hurry_hit_only_their_own_client(
    one_server_connection: Pooler, three_clients: list[ProtocolClient], is_long_run: bool
) -> None:
    """One client is canceled all the time, just when its query ends; the others never notice."""
    client, *others = three_clients
    short = "select pg_sleep(0.002)"

    async def run_canceled() -> None:
        for _ in range(300 if is_long_run else 60):
            client.send(query(short))
            reply, _ = await asyncio.gather(client.read_reply(), one_server_connection.cancel(client))
            assert reply.sqlstate in (None, "57014")

    async def run_undisturbed(other: ProtocolClient) -> None:
        while not task.done():
            assert (await other.query(short)).sqlstate is None
            assert (await other.extended_query(short)).sqlstate is None

    task = asyncio.create_task(run_canceled())
    await asyncio.gather(task, *(run_undisturbed(other) for other in others))


async def test_who_waits_for_a_member_can_be_cancelled(
    one_server_connection: Pooler, three_clients: list[ProtocolClient]
) -> None:
    holder, client, third = three_clients
    await holder.execute("begin")
    client.send(query("insert into things values (1)"))
    third.send(query("insert into things values (2)"))
    await asyncio.sleep(0.05)
    await one_server_connection.cancel(client)
    reply = await client.read_reply()
    assert (reply.sqlstate, reply.status) == ("57014", "I")
    await holder.execute("insert into things values (4)", "commit")
    assert (await third.read_reply()).tags == ["INSERT 0 1"]
    assert await client.fetch_value("select sum(id) from things") == "6"


async def test_a_batch_that_waits_is_cancelled_as_a_whole_and_what_follows_it_is_not(
    one_server_connection: Pooler, three_clients: list[ProtocolClient]
) -> None:
    holder, client, _ = three_clients
    await holder.execute("begin")
    client.send(
        extended_query("insert into things values (1)"),
        extended_query("select 1"),
        SYNC,
        query("insert into things values (2)"),
    )
    await asyncio.sleep(0.05)
    await one_server_connection.cancel(client)
    assert (await client.read_reply()).sqlstate == "57014"
    await holder.execute("commit")
    assert (await client.read_reply()).tags == ["INSERT 0 1"]
    assert await holder.fetch_value("select sum(id) from things") == "2"


async def test_a_copy_that_waits_is_cancelled_with_its_rows(
    one_server_connection: Pooler, three_clients: list[ProtocolClient]
) -> None:
    holder, client, _ = three_clients
    await holder.execute("begin")
    for sql in (query("copy things from stdin") + copy_data(b"1\n") + COPY_DONE, extended_query("select 1") + SYNC):
        client.send(sql)
        await asyncio.sleep(0.05)
        await one_server_connection.cancel(client)
        reply = await client.read_reply()
        assert (reply.message_types, reply.sqlstate) == ("EZ", "57014")
    await holder.execute("commit")
    assert await client.fetch_value(COUNT) == "0"
