"""asyncpg at the pooled host, with its defaults. `URI ADDRESS`; prints one line of JSON."""

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
    crowd = [await asyncpg.connect(uri) for _ in range(CONNECTIONS)]
    one, other = await asyncpg.connect(uri), await asyncpg.connect(uri)
    seen = {
        "client": CLIENT,
        "is_bound": False,
        **await _crowd(crowd),
        "right_in_its_pool": await _its_pool(uri),
        **await cancel(one, other),
        **await copy(one, PERMANENT_TABLE),
        "streamed": await stream(one),
        **await recover(one),
        "listened": await _listen(one),
        "temporary": await _temporary(one),
        "locked": await _lock(one, other),
    }
    await one.execute("notify news, 'heard'")
    for session in (one, other, *crowd):
        await session.close()
    return seen


async def _crowd(crowd: list[Any]) -> dict[str, int]:
    """Each has another statement under the same name, one in the cache of statements, and settings of its own."""

    async def work(number: int) -> int:
        session = crowd[number]
        for setting in make_settings(number):
            await session.execute(setting)
        prepared = await session.prepare(f"select $1::int * 1000 + {number}", name="same")
        right = 0
        for n in range(ROUNDS):
            cached = session.fetchval(f"select $1::int * 2000 + {number}", n)
            right += await prepared.fetchval(n) == n * 1000 + number and await cached == n * 2000 + number
        return right

    right = sum(await asyncio.gather(*map(work, range(CONNECTIONS))))
    memories = [await session.fetchval(SHOW_WORK_MEM) for session in crowd]
    words = [await session.fetchval(SHOW_CUSTOM_SETTING) for session in crowd]
    return count_kept_settings(right, memories, words)


async def _its_pool(uri: str) -> int:
    """It resets a session each time that one is given back to it."""
    async with asyncpg.create_pool(uri) as pool:

        async def work(number: int) -> int:
            right = 0
            for n in range(ROUNDS):
                async with pool.acquire() as session, session.transaction():
                    await session.execute(f"set work_mem = '{1000 + number}kB'")
                    right += await session.fetchval(f"select $1::int * 1000 + {number}", n) == n * 1000 + number
            return right

        return sum(await asyncio.gather(*map(work, range(CONNECTIONS))))


async def _listen(one: Any) -> list[Any]:
    try:
        await one.add_listener("news", lambda *_: None)
    except asyncpg.PostgresError as error:
        return [error.sqlstate, "direct host" in f"{error} {error.hint}"]
    return [None, False]


async def _temporary(one: Any) -> list[Any]:
    outside = await get_sqlstate(one, "create temp table staying (n int)")
    async with one.transaction():
        await one.execute("create temp table passing (n int)")
        await one.execute("insert into passing values (1), (2), (3)")
        inside = await one.fetchval("select count(*) from passing")
    return [outside, inside, await get_sqlstate(one, "select * from passing")]


async def _lock(one: Any, other: Any) -> list[Any]:
    session_lock = await get_sqlstate(one, "select pg_advisory_lock(1)")
    async with one.transaction():
        await one.execute("select pg_advisory_xact_lock(1)")
        meanwhile = await other.fetchval("select pg_try_advisory_xact_lock(1)")
    return [session_lock, meanwhile, await other.fetchval("select pg_try_advisory_xact_lock(1)")]


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
