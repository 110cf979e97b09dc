"""asyncpg at the pooled host, with its defaults. `URI ADDRESS`; prints one line of JSON."""

import asyncio
import json
import sys
from typing import Any

import asyncpg

from journeys.clients.statements import LASTING
from journeys.clients.verbs_asyncpg import CLIENT, cancel, copy, recover, state, stream, taken
from journeys.pooled.crowd import CROWD, MEMORY, ROUNDS, WORD, counted, settings_of


async def main(uri: str, address: str) -> dict[str, Any]:
    uri = taken(uri, address)
    crowd = [await asyncpg.connect(uri) for _ in range(CROWD)]
    one, other = await asyncpg.connect(uri), await asyncpg.connect(uri)
    seen = {
        "client": CLIENT,
        "is_bound": False,
        **await _crowd(crowd),
        "right_in_its_pool": await _its_pool(uri),
        **await cancel(one, other),
        **await copy(one, LASTING),
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
        for setting in settings_of(number):
            await session.execute(setting)
        prepared = await session.prepare(f"select $1::int * 1000 + {number}", name="same")
        right = 0
        for n in range(ROUNDS):
            cached = session.fetchval(f"select $1::int * 2000 + {number}", n)
            right += await prepared.fetchval(n) == n * 1000 + number and await cached == n * 2000 + number
        return right

    right = sum(await asyncio.gather(*map(work, range(CROWD))))
    memories = [await session.fetchval(MEMORY) for session in crowd]
    words = [await session.fetchval(WORD) for session in crowd]
    return counted(right, memories, words)


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

        return sum(await asyncio.gather(*map(work, range(CROWD))))


async def _listen(one: Any) -> list[Any]:
    try:
        await one.add_listener("news", lambda *_: None)
    except asyncpg.PostgresError as error:
        return [error.sqlstate, "direct host" in f"{error} {error.hint}"]
    return [None, False]


async def _temporary(one: Any) -> list[Any]:
    outside = await state(one, "create temp table staying (n int)")
    async with one.transaction():
        await one.execute("create temp table passing (n int)")
        await one.execute("insert into passing values (1), (2), (3)")
        inside = await one.fetchval("select count(*) from passing")
    return [outside, inside, await state(one, "select * from passing")]


async def _lock(one: Any, other: Any) -> list[Any]:
    session_lock = await state(one, "select pg_advisory_lock(1)")
    async with one.transaction():
        await one.execute("select pg_advisory_xact_lock(1)")
        meanwhile = await other.fetchval("select pg_try_advisory_xact_lock(1)")
    return [session_lock, meanwhile, await other.fetchval("select pg_try_advisory_xact_lock(1)")]


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
