"""The gateway when processes die or clients stall. Every request succeeds or gets a clear error; none hangs."""

import asyncio
import os
import random
import signal
import socket
from typing import Any

import psycopg
import pytest

from journeys.served_project import ServedProject, fetch_value, gather_results, read_private_kib
from support.program import is_alive, wait_until

MAX_GROWTH_KIB = 16 * 1024  # far below the size of the result that a stalled client does not read


async def is_usable(session: psycopg.AsyncConnection[Any]) -> bool:
    try:
        return bool(await fetch_value(session, "select 1") == 1)
    except psycopg.OperationalError:
        return False


async def test_a_killed_worker_takes_only_its_own_connections(project_on_own_platform: ServedProject) -> None:
    sessions = [await project_on_own_platform.connect() for _ in range(24)]
    first, *others = project_on_own_platform.worker_pids()
    assert others, "this test needs two gateway workers, that is two cores"
    os.kill(first, signal.SIGKILL)
    alive = [await is_usable(session) for session in sessions]
    assert any(alive)
    assert not all(alive)
    # New connections work also before the worker is replaced.
    assert await gather_results(*(project_on_own_platform.fetch_value("select 1") for _ in range(20))) == [1] * 20
    wait_until(
        lambda: (
            len(project_on_own_platform.worker_pids()) == 1 + len(others)
            and first not in project_on_own_platform.worker_pids()
        )
    )
    assert [await is_usable(session) for session in sessions] == alive


async def test_while_control_is_dead_sessions_go_on_and_new_ones_enter(project_on_own_platform: ServedProject) -> None:
    async with await project_on_own_platform.connect() as session:
        await session.execute("create table kept (n int)")
        old_pid = project_on_own_platform.read_supervisor_state()["control_pid"]
        os.kill(project_on_own_platform.bough.supervisor_pid(), signal.SIGSTOP)  # so that it does not restart control
        os.kill(old_pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(old_pid))
        try:
            await session.execute("insert into kept values (1)")
            assert (
                await gather_results(*(project_on_own_platform.fetch_value("select n from kept") for _ in range(8)))
                == [1] * 8
            )
        finally:
            os.kill(project_on_own_platform.bough.supervisor_pid(), signal.SIGCONT)
        project_on_own_platform.bough.wait_for_restart(old_pid)
        assert await fetch_value(session, "select n from kept") == 1
    project_on_own_platform.suspend()
    assert await project_on_own_platform.fetch_value("select n from kept") == 1


async def test_a_client_of_a_sleeping_endpoint_waits_for_control_to_come_back(
    project_on_own_platform: ServedProject,
) -> None:
    await project_on_own_platform.fetch_value("select 1")
    project_on_own_platform.suspend()
    os.kill(project_on_own_platform.read_supervisor_state()["control_pid"], signal.SIGKILL)
    assert await project_on_own_platform.fetch_value("select 1") == 1


async def test_the_death_of_a_compute_is_reported_and_the_next_connection_works(served_project: ServedProject) -> None:
    idle, busy = await served_project.connect(), await served_project.connect()
    await idle.execute("create table kept as select 1 as n")
    sleeping = asyncio.create_task(fetch_value(busy, "select pg_sleep(600)"))
    await asyncio.sleep(0.3)
    os.kill(await served_project.get_postmaster_pid(), signal.SIGKILL)
    with pytest.raises(psycopg.OperationalError) as busy_refusal:
        await sleeping
    with pytest.raises(psycopg.OperationalError) as idle_refusal:
        await fetch_value(idle, "select 1")
    assert "terminating connection" in str(busy_refusal.value)
    assert "terminating connection" in str(idle_refusal.value)
    assert await served_project.fetch_value("select n from kept") == 1


async def test_a_backend_that_dies_ends_its_session_with_an_error(served_project: ServedProject) -> None:
    async with await served_project.connect() as watcher:
        session = await served_project.connect()
        pid = await fetch_value(session, "select pg_backend_pid()")
        await watcher.execute("select pg_terminate_backend(%s)", (pid,))
        with pytest.raises(psycopg.OperationalError, match="terminating connection due to administrator command"):
            await fetch_value(session, "select 1")
        assert await is_usable(watcher)


async def test_a_client_that_does_not_read_costs_nothing_and_holds_nobody_up(
    project_on_own_platform: ServedProject,
) -> None:
    before = {pid: read_private_kib(pid) for pid in project_on_own_platform.worker_pids()}
    slow = await project_on_own_platform.connect()
    slow.pgconn.send_query(b"select repeat('x', 1000) from generate_series(1, 200000)")  # 200 MB
    slow.pgconn.flush()
    await asyncio.sleep(1)
    assert await gather_results(*(project_on_own_platform.fetch_value("select 1") for _ in range(8))) == [1] * 8
    assert max(read_private_kib(pid) - before[pid] for pid in project_on_own_platform.worker_pids()) < MAX_GROWTH_KIB
    slow.pgconn.finish()
    async with await project_on_own_platform.connect() as session:
        count_active = (
            "select count(*) from pg_stat_activity where query like '%generate_series(1, 200000)%' and state = 'active'"
        )
        deadline = asyncio.get_running_loop().time() + 60
        while await fetch_value(session, f"{count_active} and pid <> pg_backend_pid()"):
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.1)


async def test_garbage_at_the_port_harms_nobody(served_project: ServedProject) -> None:
    rng = random.Random(4)

    def send_garbage() -> None:
        with socket.create_connection(("127.0.0.1", served_project.gateway_port), timeout=60) as client:
            try:
                client.sendall(rng.randbytes(rng.choice([1, 8, 100, 20_000])))
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
            except OSError:
                pass

    async with await served_project.connect() as session:
        garbage = asyncio.gather(*(asyncio.to_thread(send_garbage) for _ in range(60)))
        assert await gather_results(*(served_project.fetch_value("select 1") for _ in range(10))) == [1] * 10
        await garbage
        assert await is_usable(session)


async def test_a_restart_cuts_no_session_and_refuses_nobody(project_on_own_platform: ServedProject) -> None:
    session = await project_on_own_platform.connect()
    await session.execute("begin")
    await session.execute("create table mine (n int)")
    old_workers = project_on_own_platform.worker_pids()
    restarting = asyncio.create_task(asyncio.to_thread(project_on_own_platform.bough, "restart"))
    connected = 0
    while not restarting.done():
        assert await project_on_own_platform.fetch_value("select 1") == 1
        connected += 1
    assert (await restarting).returncode == 0
    assert connected > 0
    assert not set(old_workers) & set(project_on_own_platform.worker_pids())
    await session.execute("insert into mine values (7)")
    await session.execute("commit")
    assert await project_on_own_platform.fetch_value("select n from mine") == 7
    assert any(map(is_alive, old_workers))
    await session.close()
    wait_until(lambda: not any(map(is_alive, old_workers)))


async def test_down_tells_the_clients(project_on_own_platform: ServedProject) -> None:
    session = await project_on_own_platform.connect()
    assert project_on_own_platform.bough("down").returncode == 0
    with pytest.raises(psycopg.OperationalError, match="terminating connection"):
        await fetch_value(session, "select 1")
