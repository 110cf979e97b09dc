"""Pooled clients while computes, control and workers come and go: who has no transaction open notices nothing."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli.program import Program, is_alive, until
from journeys.pooled.host import Watch, enter, enter_many, pooled_uri, reachable
from journeys.served import RATELESS, Running, Served, gathered, serving, sharing, value

SLOW_ENOUGH = 3.5  # seconds for a report to reach control, and for control to do something about it
COUNT = 12


async def with_settings(one: Served) -> tuple[list[psycopg.AsyncConnection[Any]], list[str]]:
    """Clients that each have a setting of their own; and these."""
    clients = await enter_many(one, COUNT)
    wished = [f"{1000 + number}kB" for number in range(COUNT)]
    for client, size in zip(clients, wished, strict=True):
        await client.execute(f"set work_mem = '{size}'")
    return clients, wished


async def settings_of(clients: list[psycopg.AsyncConnection[Any]]) -> list[Any]:
    return await gathered(*(value(client, "show work_mem") for client in clients))


async def processes(one: Served) -> list[int]:
    """Of the compute: the postmaster, then all that it started."""
    postmaster = await one.postmaster()
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    return [postmaster, *map(int, children)]


def is_new(one: Served, old: str) -> bool:
    """The compute that runs is not the one that started then."""
    now = one.seen()
    return bool(now["current_state"] == "active" and now["started_at"] != old)


async def test_a_suspended_compute_is_woken_by_the_next_query_of_those_who_stayed(one: Served) -> None:
    clients, wished = await with_settings(one)
    one.suspend()
    assert await settings_of(clients) == wished
    assert one.state() == "active"


async def test_a_restart_of_the_compute_is_not_noticed(one: Served) -> None:
    clients, wished = await with_settings(one)
    old = one.seen()["started_at"]
    one.api.post(f"{one.path}/restart").raise_for_status()
    until(lambda: is_new(one, old))
    assert await settings_of(clients) == wished


async def test_who_asks_while_the_compute_restarts_waits_for_it(one: Served) -> None:
    """But for a question that Postgres had already read when it was stopped: nobody can know how far that got."""
    clients, wished = await with_settings(one)
    old = one.seen()["started_at"]
    one.api.post(f"{one.path}/restart").raise_for_status()
    told = await settings_of(clients)
    cut = [isinstance(each, psycopg.errors.AdminShutdown) for each in told]
    assert [wish if was_cut else each for wish, each, was_cut in zip(wished, told, cut, strict=True)] == wished
    assert sum(cut) < COUNT / 2
    until(lambda: is_new(one, old))
    stayed = [number for number in range(COUNT) if not cut[number]]
    assert await settings_of([clients[number] for number in stayed]) == [wished[number] for number in stayed]


async def test_the_death_of_a_compute_is_told_to_those_in_a_transaction_only(one: Served) -> None:
    clients, wished = await with_settings(one)
    waiting, working = await enter_many(one, 2)
    await waiting.execute("create table kept as select 1 as n")
    await waiting.execute("begin")
    await waiting.execute("insert into kept values (2)")
    sleeping = asyncio.create_task(value(working, "select pg_sleep(600)"))
    await asyncio.sleep(0.3)
    for pid in await processes(one):
        os.kill(pid, signal.SIGKILL)
    for asked in (value(waiting, "select 1"), sleeping):
        with pytest.raises(psycopg.OperationalError) as cut:
            await asked
        assert str(cut.value.sqlstate).startswith(("57P", "08")), cut.value
    assert await settings_of(clients) == wished
    assert await value(clients[0], "select sum(n) from kept") == 1


async def test_idle_clients_let_the_compute_sleep_and_an_open_transaction_keeps_it_awake(bough: Program) -> None:
    bough.variables = {"BOUGH_SUSPEND_TIMEOUT_DEFAULT": "2", **RATELESS}
    async with serving(bough) as idle, sharing(Running(bough, bough.said)) as busy:
        client = await enter(busy)
        async with client.transaction():
            pid = await value(client, "select pg_backend_pid()")
            clients, wished = await with_settings(idle)
            until(lambda: idle.state() == "idle", 60)
            await asyncio.sleep(SLOW_ENOUGH)
            assert idle.state() == "idle"  # nor do they wake it
            assert await settings_of(clients) == wished
            assert await value(client, "select pg_backend_pid()") == pid


async def test_while_control_is_dead_pooled_clients_go_on_and_new_ones_enter(alone: Served) -> None:
    clients, wished = await with_settings(alone)
    await clients[0].execute("create table kept (n int)")
    uri, old = reachable(pooled_uri(alone)), alone.supervisor()["control_pid"]

    async def newcomer() -> None:
        async with await alone.entered(uri) as session:
            await session.execute("insert into kept values (1)")

    os.kill(alone.bough.supervisor(), signal.SIGSTOP)  # nobody brings it back
    os.kill(old, signal.SIGKILL)
    until(lambda: not is_alive(old))
    try:
        assert await settings_of(clients) == wished
        assert await gathered(*(newcomer() for _ in range(8))) == [None] * 8
        assert await value(clients[0], "select count(*) from kept") == 8
    finally:
        os.kill(alone.bough.supervisor(), signal.SIGCONT)
    alone.bough.running_again(old)
    assert await settings_of(clients) == wished
    alone.suspend()
    assert await settings_of(clients) == wished


async def test_a_killed_worker_takes_its_own_clients_and_gives_back_what_they_had(own: Running) -> None:
    """All of the pool is lent when it dies; others keep their transactions, and afterwards all can be lent again."""
    async with sharing(own, pgbouncer_settings={"default_pool_size": str(COUNT)}) as one:
        clients = await enter_many(one, COUNT)
        await clients[0].execute("create table kept (n int)")
        await lend_all(clients)
        first, *others = one.workers()
        assert others, "one worker a core; this machine has one"
        os.kill(first, signal.SIGKILL)
        results = await gathered(*(client.execute("commit") for client in clients))
        cut = [result for result in results if isinstance(result, psycopg.OperationalError)]
        assert 0 < len(cut) < COUNT
        assert await one.value("select count(*) from kept") == COUNT - len(cut)
        until(lambda: len(one.workers()) == 1 + len(others) and first not in one.workers())
        with Watch(one) as watch:
            newcomers = await enter_many(one, COUNT)
            await lend_all(newcomers)
            assert watch.now() == COUNT
            await asyncio.gather(*(client.execute("commit") for client in newcomers))
        one.delete()


async def lend_all(clients: list[psycopg.AsyncConnection[Any]]) -> None:
    """Each has a transaction open at the end."""
    for client in clients:
        await client.execute("begin")
    await asyncio.gather(*(client.execute("insert into kept values (1)") for client in clients))


async def test_a_restart_of_the_gateway_cuts_no_pooled_client(alone: Served) -> None:
    clients, wished = await with_settings(alone)
    await clients[0].execute("create table kept (n int)")
    await clients[0].execute("begin")
    await clients[0].execute("insert into kept values (1)")
    old = alone.workers()
    assert (await asyncio.to_thread(alone.bough, "restart")).returncode == 0
    assert not set(old) & set(alone.workers())
    await clients[0].execute("commit")
    assert await settings_of(clients) == wished
    async with await enter(alone) as newcomer:
        assert await value(newcomer, "select count(*) from kept") == 1
    await asyncio.gather(*(client.close() for client in clients))
    until(lambda: not any(map(is_alive, old)))
