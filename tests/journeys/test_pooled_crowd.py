"""A crowd at the pooled host of one endpoint: most of it idle, many at work, on the connections of a small compute."""

import asyncio
import resource
from typing import Any

import psycopg
import pytest

from journeys.pooled.connections import ServerConnectionMonitor, connect_many
from journeys.served_project import ServedProject, fetch_value, private_kib, start_platform_with_project
from support import requirements
from support.program import Program

SERVERS = 100  # nine tenths of the 112 that the smallest compute allows
ROUNDS = 10
OTHER_FILES = 200  # what this process has open beside


@pytest.mark.timeout(1800)
async def test_all_are_answered_rightly_by_the_few_connections_there_are(bough: Program, is_long_run: bool) -> None:
    idle_count, busy_count = (10_000, 1_000) if is_long_run else (110, 40)
    make_room_for(idle_count + busy_count)
    async with start_platform_with_project(bough) as one:
        async with await one.connect() as direct:
            await direct.execute("create table ledger (who int, n int, primary key (who, n))")
        before = memory(one)
        with ServerConnectionMonitor(one) as watch:
            idle = await connect_many(one, idle_count)
            assert await asked(idle) == [1] * idle_count
            print(f"{(memory(one) - before) / idle_count:.1f} KiB of the gateway for each of {idle_count} idle clients")
            busy = await connect_many(one, busy_count)
            right = await asyncio.gather(*(work(session, who) for who, session in enumerate(busy)))
            assert right == [ROUNDS] * busy_count
            assert await asked(idle) == [1] * idle_count
        print(f"at most {watch.maximum} server connections in {watch.samples} looks")
        assert 0 < watch.maximum <= SERVERS
        assert await one.fetch_value("select count(*) from ledger") == busy_count * ROUNDS
        await asyncio.gather(*(session.close() for session in one.sessions))


async def work(session: psycopg.AsyncConnection[Any], who: int) -> int:
    """How many rounds went as they should: a prepared statement, then a transaction."""
    right = 0
    for n in range(ROUNDS):
        [told] = await rows(session, "select %s::int * 1000 + %s::int", who, n)
        async with session.transaction():
            await session.execute("insert into ledger values (%s, %s)", (who, n))
            found = await rows(session, "select n from ledger where who = %s order by n", who)
        right += told == (who * 1000 + n,) and found == [(seen,) for seen in range(n + 1)]
    return right


async def rows(session: psycopg.AsyncConnection[Any], statement: str, *given: int) -> list[Any]:
    return await (await session.execute(statement, given)).fetchall()


async def asked(sessions: list[psycopg.AsyncConnection[Any]]) -> list[Any]:
    return await asyncio.gather(*(fetch_value(session, "select 1") for session in sessions))


def memory(one: ServedProject) -> int:
    return sum(map(private_kib, one.worker_pids()))


def make_room_for(connections: int) -> None:
    """One file for each; a worker of the gateway, which has the same limit, has fewer than all of them."""
    needed = connections + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = hard == resource.RLIM_INFINITY
    requirements.require("files", unlimited or hard >= needed, f"this test needs a limit of {needed} open files")
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
