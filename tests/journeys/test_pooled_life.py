"""Pooled clients while computes, control and workers come and go: who has no transaction open notices nothing."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from journeys.pooled.connections import ServerConnectionMonitor, connect, connect_many, get_pooled_uri, with_address
from journeys.served_project import (
    NO_RATE_LIMIT,
    RunningPlatform,
    ServedProject,
    create_project,
    fetch_value,
    gather_results,
    start_platform_with_project,
)
from support.program import Program, is_alive, wait_until

SLOW_ENOUGH = 3.5  # seconds for a report to reach control, and for control to do something about it
COUNT = 12


async def with_settings(one: ServedProject) -> tuple[list[psycopg.AsyncConnection[Any]], list[str]]:
    """Clients that each have a setting of their own; and these."""
    clients = await connect_many(one, COUNT)
    wished = [f"{1000 + number}kB" for number in range(COUNT)]
    for client, size in zip(clients, wished, strict=True):
        await client.execute(f"set work_mem = '{size}'")
    return clients, wished


async def settings_of(clients: list[psycopg.AsyncConnection[Any]]) -> list[Any]:
    return await gather_results(*(fetch_value(client, "show work_mem") for client in clients))


async def processes(one: ServedProject) -> list[int]:
    """Of the compute: the postmaster, then all that it started."""
    postmaster = await one.get_postmaster_pid()
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    return [postmaster, *map(int, children)]


def is_new(one: ServedProject, old: str) -> bool:
    """The compute that runs is not the one that started then."""
    now = one.get_endpoint()
    return bool(now["current_state"] == "active" and now["started_at"] != old)


async def test_a_suspended_compute_is_woken_by_the_next_query_of_those_who_stayed(
    served_project: ServedProject,
) -> None:
    clients, wished = await with_settings(served_project)
    served_project.suspend()
    assert await settings_of(clients) == wished
    assert served_project.get_state() == "active"


async def test_a_restart_of_the_compute_is_not_noticed(served_project: ServedProject) -> None:
    clients, wished = await with_settings(served_project)
    old = served_project.get_endpoint()["started_at"]
    served_project.api.post(f"{served_project.endpoint_path}/restart").raise_for_status()
    wait_until(lambda: is_new(served_project, old))
    assert await settings_of(clients) == wished


async def test_who_asks_while_the_compute_restarts_waits_for_it(served_project: ServedProject) -> None:
    """But for a question that Postgres had already read when it was stopped: nobody can know how far that got."""
    clients, wished = await with_settings(served_project)
    old = served_project.get_endpoint()["started_at"]
    served_project.api.post(f"{served_project.endpoint_path}/restart").raise_for_status()
    told = await settings_of(clients)
    cut = [isinstance(each, psycopg.errors.AdminShutdown) for each in told]
    assert [wish if was_cut else each for wish, each, was_cut in zip(wished, told, cut, strict=True)] == wished
    assert sum(cut) < COUNT / 2
    wait_until(lambda: is_new(served_project, old))
    stayed = [number for number in range(COUNT) if not cut[number]]
    assert await settings_of([clients[number] for number in stayed]) == [wished[number] for number in stayed]


async def test_the_death_of_a_compute_is_told_to_those_in_a_transaction_only(served_project: ServedProject) -> None:
    clients, wished = await with_settings(served_project)
    waiting, working = await connect_many(served_project, 2)
    await waiting.execute("create table kept as select 1 as n")
    await waiting.execute("begin")
    await waiting.execute("insert into kept values (2)")
    sleeping = asyncio.create_task(fetch_value(working, "select pg_sleep(600)"))
    await asyncio.sleep(0.3)
    for pid in await processes(served_project):
        os.kill(pid, signal.SIGKILL)
    for asked in (fetch_value(waiting, "select 1"), sleeping):
        with pytest.raises(psycopg.OperationalError) as cut:
            await asked
        assert str(cut.value.sqlstate).startswith(("57P", "08")), cut.value
    assert await settings_of(clients) == wished
    assert await fetch_value(clients[0], "select sum(n) from kept") == 1


async def test_idle_clients_let_the_compute_sleep_and_an_open_transaction_keeps_it_awake(bough: Program) -> None:
    bough.variables = {"BOUGH_SUSPEND_TIMEOUT_DEFAULT": "2", **NO_RATE_LIMIT}
    async with (
        start_platform_with_project(bough) as idle,
        create_project(RunningPlatform(bough, bough.up_output)) as busy,
    ):
        client = await connect(busy)
        async with client.transaction():
            pid = await fetch_value(client, "select pg_backend_pid()")
            clients, wished = await with_settings(idle)
            wait_until(lambda: idle.get_state() == "idle", 60)
            await asyncio.sleep(SLOW_ENOUGH)
            assert idle.get_state() == "idle"  # nor do they wake it
            assert await settings_of(clients) == wished
            assert await fetch_value(client, "select pg_backend_pid()") == pid


async def test_while_control_is_dead_pooled_clients_go_on_and_new_ones_enter(
    project_on_own_platform: ServedProject,
) -> None:
    clients, wished = await with_settings(project_on_own_platform)
    await clients[0].execute("create table kept (n int)")
    uri, old = (
        with_address(get_pooled_uri(project_on_own_platform)),
        project_on_own_platform.read_supervisor_state()["control_pid"],
    )

    async def newcomer() -> None:
        async with await project_on_own_platform.connect_to(uri) as session:
            await session.execute("insert into kept values (1)")

    os.kill(project_on_own_platform.bough.supervisor_pid(), signal.SIGSTOP)  # nobody brings it back
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: not is_alive(old))
    try:
        assert await settings_of(clients) == wished
        assert await gather_results(*(newcomer() for _ in range(8))) == [None] * 8
        assert await fetch_value(clients[0], "select count(*) from kept") == 8
    finally:
        os.kill(project_on_own_platform.bough.supervisor_pid(), signal.SIGCONT)
    project_on_own_platform.bough.wait_for_restart(old)
    assert await settings_of(clients) == wished
    project_on_own_platform.suspend()
    assert await settings_of(clients) == wished


async def test_a_killed_worker_takes_its_own_clients_and_gives_back_what_they_had(
    own_platform: RunningPlatform,
) -> None:
    """All of the pool is lent when it dies; others keep their transactions, and afterwards all can be lent again."""
    async with create_project(own_platform, pgbouncer_settings={"default_pool_size": str(COUNT)}) as one:
        clients = await connect_many(one, COUNT)
        await clients[0].execute("create table kept (n int)")
        await lend_all(clients)
        first, *others = one.worker_pids()
        assert others, "one worker a core; this machine has one"
        os.kill(first, signal.SIGKILL)
        results = await gather_results(*(client.execute("commit") for client in clients))
        cut = [result for result in results if isinstance(result, psycopg.OperationalError)]
        assert 0 < len(cut) < COUNT
        assert await one.fetch_value("select count(*) from kept") == COUNT - len(cut)
        wait_until(lambda: len(one.worker_pids()) == 1 + len(others) and first not in one.worker_pids())
        with ServerConnectionMonitor(one) as watch:
            newcomers = await connect_many(one, COUNT)
            await lend_all(newcomers)
            assert watch.count() == COUNT
            await asyncio.gather(*(client.execute("commit") for client in newcomers))
        one.delete()


async def lend_all(clients: list[psycopg.AsyncConnection[Any]]) -> None:
    """Each has a transaction open at the end."""
    for client in clients:
        await client.execute("begin")
    await asyncio.gather(*(client.execute("insert into kept values (1)") for client in clients))


async def test_a_restart_of_the_gateway_cuts_no_pooled_client(project_on_own_platform: ServedProject) -> None:
    clients, wished = await with_settings(project_on_own_platform)
    await clients[0].execute("create table kept (n int)")
    await clients[0].execute("begin")
    await clients[0].execute("insert into kept values (1)")
    old = project_on_own_platform.worker_pids()
    assert (await asyncio.to_thread(project_on_own_platform.bough, "restart")).returncode == 0
    assert not set(old) & set(project_on_own_platform.worker_pids())
    await clients[0].execute("commit")
    assert await settings_of(clients) == wished
    async with await connect(project_on_own_platform) as newcomer:
        assert await fetch_value(newcomer, "select count(*) from kept") == 1
    await asyncio.gather(*(client.close() for client in clients))
    wait_until(lambda: not any(map(is_alive, old)))
