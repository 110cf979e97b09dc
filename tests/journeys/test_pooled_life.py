"""Pooled clients while computes, control and workers stop and restart. Only clients in a transaction get errors."""

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

REPORT_SECONDS = 3.5  # until a report has reached control and control has acted on it
CLIENTS = 12


async def connect_with_settings(project: ServedProject) -> tuple[list[psycopg.AsyncConnection[Any]], list[str]]:
    """Connects clients with different values of a setting. Returns the clients and the values."""
    clients = await connect_many(project, CLIENTS)
    expected = [f"{1000 + number}kB" for number in range(CLIENTS)]
    for client, size in zip(clients, expected, strict=True):
        await client.execute(f"set work_mem = '{size}'")
    return clients, expected


async def show_settings(clients: list[psycopg.AsyncConnection[Any]]) -> list[Any]:
    return await gather_results(*(fetch_value(client, "show work_mem") for client in clients))


async def list_compute_processes(project: ServedProject) -> list[int]:
    """Lists the processes of the compute: the postmaster, then its children."""
    postmaster = await project.get_postmaster_pid()
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    return [postmaster, *map(int, children)]


def is_restarted(project: ServedProject, old_start: str) -> bool:
    """Returns whether the compute runs and has another start time than before."""
    endpoint = project.get_endpoint()
    return bool(endpoint["current_state"] == "active" and endpoint["started_at"] != old_start)


async def test_a_suspended_compute_is_woken_by_the_next_query_of_those_who_stayed(
    served_project: ServedProject,
) -> None:
    clients, expected = await connect_with_settings(served_project)
    served_project.suspend()
    assert await show_settings(clients) == expected
    assert served_project.get_state() == "active"


async def test_a_restart_of_the_compute_is_not_noticed(served_project: ServedProject) -> None:
    clients, expected = await connect_with_settings(served_project)
    old_start = served_project.get_endpoint()["started_at"]
    served_project.api.post(f"{served_project.endpoint_path}/restart").raise_for_status()
    wait_until(lambda: is_restarted(served_project, old_start))
    assert await show_settings(clients) == expected


async def test_who_asks_while_the_compute_restarts_waits_for_it(served_project: ServedProject) -> None:
    """Queries that Postgres had already read when it stopped fail: it is unknown whether they were executed."""
    clients, expected = await connect_with_settings(served_project)
    old_start = served_project.get_endpoint()["started_at"]
    served_project.api.post(f"{served_project.endpoint_path}/restart").raise_for_status()
    results = await show_settings(clients)
    failed = [isinstance(each, psycopg.errors.AdminShutdown) for each in results]
    assert [
        value if is_failed else each for value, each, is_failed in zip(expected, results, failed, strict=True)
    ] == expected
    assert sum(failed) < CLIENTS / 2
    wait_until(lambda: is_restarted(served_project, old_start))
    remaining = [number for number in range(CLIENTS) if not failed[number]]
    assert await show_settings([clients[number] for number in remaining]) == [expected[number] for number in remaining]


async def test_the_death_of_a_compute_is_told_to_those_in_a_transaction_only(served_project: ServedProject) -> None:
    clients, expected = await connect_with_settings(served_project)
    in_transaction, in_query = await connect_many(served_project, 2)
    await in_transaction.execute("create table kept as select 1 as n")
    await in_transaction.execute("begin")
    await in_transaction.execute("insert into kept values (2)")
    sleeping = asyncio.create_task(fetch_value(in_query, "select pg_sleep(600)"))
    await asyncio.sleep(0.3)
    for pid in await list_compute_processes(served_project):
        os.kill(pid, signal.SIGKILL)
    for pending in (fetch_value(in_transaction, "select 1"), sleeping):
        with pytest.raises(psycopg.OperationalError) as refusal:
            await pending
        assert str(refusal.value.sqlstate).startswith(("57P", "08")), refusal.value
    assert await show_settings(clients) == expected
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
            clients, expected = await connect_with_settings(idle)
            wait_until(lambda: idle.get_state() == "idle", 60)
            await asyncio.sleep(REPORT_SECONDS)
            assert idle.get_state() == "idle"  # idle clients do not wake it
            assert await show_settings(clients) == expected
            assert await fetch_value(client, "select pg_backend_pid()") == pid


async def test_while_control_is_dead_pooled_clients_go_on_and_new_ones_enter(
    project_on_own_platform: ServedProject,
) -> None:
    clients, expected = await connect_with_settings(project_on_own_platform)
    await clients[0].execute("create table kept (n int)")
    uri = with_address(get_pooled_uri(project_on_own_platform))
    old_pid = project_on_own_platform.read_supervisor_state()["control_pid"]

    async def connect_and_insert() -> None:
        async with await project_on_own_platform.connect_to(uri) as session:
            await session.execute("insert into kept values (1)")

    os.kill(project_on_own_platform.bough.supervisor_pid(), signal.SIGSTOP)  # so that it does not restart control
    os.kill(old_pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(old_pid))
    try:
        assert await show_settings(clients) == expected
        assert await gather_results(*(connect_and_insert() for _ in range(8))) == [None] * 8
        assert await fetch_value(clients[0], "select count(*) from kept") == 8
    finally:
        os.kill(project_on_own_platform.bough.supervisor_pid(), signal.SIGCONT)
    project_on_own_platform.bough.wait_for_restart(old_pid)
    assert await show_settings(clients) == expected
    project_on_own_platform.suspend()
    assert await show_settings(clients) == expected


async def test_a_killed_worker_takes_its_own_clients_and_gives_back_what_they_had(
    own_platform: RunningPlatform,
) -> None:
    """The worker dies while all server connections are in use. Afterwards all of them can be used again."""
    async with create_project(own_platform, pgbouncer_settings={"default_pool_size": str(CLIENTS)}) as project:
        clients = await connect_many(project, CLIENTS)
        await clients[0].execute("create table kept (n int)")
        await open_transactions(clients)
        first, *others = project.worker_pids()
        assert others, "this test needs two gateway workers, that is two cores"
        os.kill(first, signal.SIGKILL)
        results = await gather_results(*(client.execute("commit") for client in clients))
        failed = [result for result in results if isinstance(result, psycopg.OperationalError)]
        assert 0 < len(failed) < CLIENTS
        assert await project.fetch_value("select count(*) from kept") == CLIENTS - len(failed)
        wait_until(lambda: len(project.worker_pids()) == 1 + len(others) and first not in project.worker_pids())
        with ServerConnectionMonitor(project) as monitor:
            new_clients = await connect_many(project, CLIENTS)
            await open_transactions(new_clients)
            assert monitor.count() == CLIENTS
            await asyncio.gather(*(client.execute("commit") for client in new_clients))
        project.delete()


async def open_transactions(clients: list[psycopg.AsyncConnection[Any]]) -> None:
    """Opens a transaction in every client, so that each holds a server connection."""
    for client in clients:
        await client.execute("begin")
    await asyncio.gather(*(client.execute("insert into kept values (1)") for client in clients))


async def test_a_restart_of_the_gateway_cuts_no_pooled_client(project_on_own_platform: ServedProject) -> None:
    clients, expected = await connect_with_settings(project_on_own_platform)
    await clients[0].execute("create table kept (n int)")
    await clients[0].execute("begin")
    await clients[0].execute("insert into kept values (1)")
    old_workers = project_on_own_platform.worker_pids()
    assert (await asyncio.to_thread(project_on_own_platform.bough, "restart")).returncode == 0
    assert not set(old_workers) & set(project_on_own_platform.worker_pids())
    await clients[0].execute("commit")
    assert await show_settings(clients) == expected
    async with await connect(project_on_own_platform) as new_client:
        assert await fetch_value(new_client, "select count(*) from kept") == 1
    await asyncio.gather(*(client.close() for client in clients))
    wait_until(lambda: not any(map(is_alive, old_workers)))
