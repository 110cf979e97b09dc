"""Runs asyncpg at the pooled host with default settings. Usage: `URI ADDRESS`; prints one line of JSON."""

import asyncio
import json
import sys
from typing import Any

import asyncpg

from journeys.clients.asyncpg_actions import CLIENT, cancel, copy, get_sqlstate, prepare_uri, recover, stream
from journeys.clients.statements import PERMANENT_TABLE
from journeys.pooled.connection_settings import (
    CONNECTIONS,
    ROUNDS,
    SHOW_CUSTOM_SETTING,
    SHOW_WORK_MEM,
    count_kept_settings,
    make_settings,
)


async def main(uri: str, address: str) -> dict[str, Any]:
    uri = prepare_uri(uri, address)
    connections = [await asyncpg.connect(uri) for _ in range(CONNECTIONS)]
    session, other = await asyncpg.connect(uri), await asyncpg.connect(uri)
    results = {
        "client": CLIENT,
        "is_bound": False,
        **await _use_all(connections),
        "right_in_its_pool": await _use_client_pool(uri),
        **await cancel(session, other),
        **await copy(session, PERMANENT_TABLE),
        "streamed": await stream(session),
        **await recover(session),
        "listened": await _listen(session),
        "temporary": await _temporary(session),
        "locked": await _lock(session, other),
    }
    await session.execute("notify news, 'heard'")
    for connection in (session, other, *connections):
        await connection.close()
    return results


async def _use_all(connections: list[Any]) -> dict[str, int]:
    """Each connection has its own statement under the same name, a cached statement and its own settings."""

    async def work(number: int) -> int:
        connection = connections[number]
        for setting in make_settings(number):
            await connection.execute(setting)
        prepared = await connection.prepare(f"select $1::int * 1000 + {number}", name="same")
        correct = 0
        for n in range(ROUNDS):
            cached = connection.fetchval(f"select $1::int * 2000 + {number}", n)
            correct += await prepared.fetchval(n) == n * 1000 + number and await cached == n * 2000 + number
        return correct

    correct = sum(await asyncio.gather(*map(work, range(CONNECTIONS))))
    memories = [await connection.fetchval(SHOW_WORK_MEM) for connection in connections]
    words = [await connection.fetchval(SHOW_CUSTOM_SETTING) for connection in connections]
    return count_kept_settings(correct, memories, words)


async def _use_client_pool(uri: str) -> int:
    """Uses the pool of asyncpg, which resets a connection when it is released."""
    async with asyncpg.create_pool(uri) as pool:

        async def work(number: int) -> int:
            correct = 0
            for n in range(ROUNDS):
                async with pool.acquire() as connection, connection.transaction():
                    await connection.execute(f"set work_mem = '{1000 + number}kB'")
                    correct += await connection.fetchval(f"select $1::int * 1000 + {number}", n) == n * 1000 + number
            return correct

        return sum(await asyncio.gather(*map(work, range(CONNECTIONS))))


async def _listen(session: Any) -> list[Any]:
    try:
        await session.add_listener("news", lambda *_: None)
    except asyncpg.PostgresError as error:
        return [error.sqlstate, "direct host" in f"{error} {error.hint}"]
    return [None, False]


async def _temporary(session: Any) -> list[Any]:
    outside = await get_sqlstate(session, "create temp table staying (n int)")
    async with session.transaction():
        await session.execute("create temp table passing (n int)")
        await session.execute("insert into passing values (1), (2), (3)")
        inside = await session.fetchval("select count(*) from passing")
    return [outside, inside, await get_sqlstate(session, "select * from passing")]


async def _lock(session: Any, other: Any) -> list[Any]:
    session_lock = await get_sqlstate(session, "select pg_advisory_lock(1)")
    async with session.transaction():
        await session.execute("select pg_advisory_xact_lock(1)")
        during = await other.fetchval("select pg_try_advisory_xact_lock(1)")
    return [session_lock, during, await other.fetchval("select pg_try_advisory_xact_lock(1)")]


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
