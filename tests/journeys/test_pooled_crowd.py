"""Many clients at the pooled host of one endpoint, most of them idle, share the connections of a small compute."""

import asyncio
import resource
from typing import Any

import psycopg
import pytest

from journeys.pooled.connections import ServerConnectionMonitor, connect_many
from journeys.served_project import ServedProject, fetch_value, read_private_kib, start_platform_with_project
from support import requirements
from support.program import Program

MAX_SERVER_CONNECTIONS = 100  # 90 % of the 112 connections that the smallest compute allows
ROUNDS = 10
OTHER_FILES = 200  # that this process opens for other reasons


@pytest.mark.timeout(1800)
async def test_all_are_answered_rightly_by_the_few_connections_there_are(bough: Program, is_long_run: bool) -> None:
    idle_count, busy_count = (10_000, 1_000) if is_long_run else (110, 40)
    raise_file_limit(idle_count + busy_count)
    async with start_platform_with_project(bough) as project:
        async with await project.connect() as direct:
            await direct.execute("create table ledger (who int, n int, primary key (who, n))")
        before = measure_gateway_memory(project)
        with ServerConnectionMonitor(project) as monitor:
            idle = await connect_many(project, idle_count)
            assert await select_one_on_each(idle) == [1] * idle_count
            used = (measure_gateway_memory(project) - before) / idle_count
            print(f"{used:.1f} KiB of gateway memory for each of {idle_count} idle clients")
            busy = await connect_many(project, busy_count)
            correct = await asyncio.gather(*(run_rounds(session, client) for client, session in enumerate(busy)))
            assert correct == [ROUNDS] * busy_count
            assert await select_one_on_each(idle) == [1] * idle_count
        print(f"at most {monitor.maximum} server connections in {monitor.samples} samples")
        assert 0 < monitor.maximum <= MAX_SERVER_CONNECTIONS
        assert await project.fetch_value("select count(*) from ledger") == busy_count * ROUNDS
        await asyncio.gather(*(session.close() for session in project.sessions))


async def run_rounds(session: psycopg.AsyncConnection[Any], client: int) -> int:
    """Runs a prepared statement and a transaction per round. Returns the number of rounds with correct results."""
    correct = 0
    for n in range(ROUNDS):
        [sum_row] = await fetch_rows(session, "select %s::int * 1000 + %s::int", client, n)
        async with session.transaction():
            await session.execute("insert into ledger values (%s, %s)", (client, n))
            found = await fetch_rows(session, "select n from ledger where who = %s order by n", client)
        correct += sum_row == (client * 1000 + n,) and found == [(number,) for number in range(n + 1)]
    return correct


async def fetch_rows(session: psycopg.AsyncConnection[Any], statement: str, *parameters: int) -> list[Any]:
    return await (await session.execute(statement, parameters)).fetchall()


async def select_one_on_each(sessions: list[psycopg.AsyncConnection[Any]]) -> list[Any]:
    return await asyncio.gather(*(fetch_value(session, "select 1") for session in sessions))


def measure_gateway_memory(project: ServedProject) -> int:
    return sum(map(read_private_kib, project.worker_pids()))


def raise_file_limit(connections: int) -> None:
    """Allows one open file per connection, also in gateway workers, which inherit the limit."""
    needed = connections + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = hard == resource.RLIM_INFINITY
    requirements.require("files", unlimited or hard >= needed, f"this test needs a limit of {needed} open files")
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
