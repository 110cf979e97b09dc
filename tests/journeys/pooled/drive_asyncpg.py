"""asyncpg at the pooled host, with its defaults. `URI ADDRESS`; prints one line of JSON."""

import asyncio
import json
import socket
import sys
from typing import Any
from urllib.parse import urlsplit

import asyncpg

CROWD, ROUNDS = 8, 25
SLEEPS = "select count(*) from pg_stat_activity where query = 'select pg_sleep(60)' and wait_event = 'PgSleep'"


def resolve(host: str, address: str) -> None:
    """Have a name lead to an address, on machines that do not know it."""
    asked = socket.getaddrinfo

    def answer(name: Any, *more: Any, **how: Any) -> Any:
        return asked(address if name == host else name, *more, **how)

    socket.getaddrinfo = answer  # type: ignore[assignment]


async def main(uri: str, address: str) -> dict[str, Any]:
    resolve(urlsplit(uri).hostname or "", address)
    uri = uri.replace("&channel_binding=require", "")  # it cannot, and takes the word for a setting of the server
    seen: dict[str, Any] = {"client": f"asyncpg {asyncpg.__version__}", "is_bound": False}
    crowd = [await asyncpg.connect(uri) for _ in range(CROWD)]
    one, other = await asyncpg.connect(uri), await asyncpg.connect(uri)
    seen |= await _crowd(crowd)
    seen["right_in_its_pool"] = await _its_pool(uri)
    seen |= await _cancel(one, other)
    seen |= await _copy(one)
    seen["streamed"] = await _stream(one)
    seen |= await _recover(one)
    seen["listened"] = await _listen(one)
    await one.execute("notify news, 'heard'")
    seen["temporary"] = await _temporary(one)
    seen["locked"] = await _lock(one, other)
    for session in (one, other, *crowd):
        await session.close()
    return seen


async def _state(one: Any, statement: str) -> str | None:
    try:
        await one.execute(statement)
    except asyncpg.PostgresError as error:
        return str(error.sqlstate)
    return None


async def _crowd(crowd: list[Any]) -> dict[str, int]:
    """Each has another statement under the same name, one in the cache of statements, and settings of its own."""

    async def work(number: int) -> int:
        session = crowd[number]
        await session.execute(f"set work_mem = '{1000 + number}kB'")
        await session.execute(f"set my.word = 'word {number}'")
        prepared = await session.prepare(f"select $1::int * 1000 + {number}", name="same")
        right = 0
        for n in range(ROUNDS):
            cached = session.fetchval(f"select $1::int * 2000 + {number}", n)
            right += await prepared.fetchval(n) == n * 1000 + number and await cached == n * 2000 + number
        return right

    right = sum(await asyncio.gather(*map(work, range(CROWD))))
    kept = [await session.fetchval("show work_mem") for session in crowd]
    words = [await session.fetchval("select current_setting('my.word', true)") for session in crowd]
    return {
        "right": right,
        "kept": sum(value == f"{1000 + number}kB" for number, value in enumerate(kept)),
        "words": sum(value == f"word {number}" for number, value in enumerate(words)),
    }


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


async def _cancel(one: Any, other: Any) -> dict[str, Any]:
    """asyncpg cancels what nobody awaits any longer."""
    sleeping = asyncio.create_task(one.execute("select pg_sleep(60)"))
    while not await other.fetchval(SLEEPS):
        pass
    sleeping.cancel()
    await asyncio.wait([sleeping])
    after = await one.fetchval("select 1")
    state = "57014" if await other.fetchval(SLEEPS) == 0 else None
    return {"cancelled": state, "after_cancel": after}


async def _copy(one: Any) -> dict[str, Any]:
    await one.execute("drop table if exists copied")
    await one.execute("create table copied (n int, word text)")
    await one.copy_records_to_table("copied", records=[(n, f"word {n}") for n in range(10_000)])
    size = 0

    async def take(piece: bytes) -> None:
        nonlocal size
        size += len(piece)

    await one.copy_from_query("select * from copied order by n", output=take)
    return {"copied": await one.fetchval("select count(*) from copied"), "copied_bytes": size}


async def _stream(one: Any) -> int:
    size = 0
    async with one.transaction():
        async for row in one.cursor("select repeat('x', 10240) from generate_series(1, 10240)", prefetch=100):
            size += len(row[0])
    return size


async def _recover(one: Any) -> dict[str, Any]:
    transaction = one.transaction()
    await transaction.start()
    states = [await _state(one, "select 1 / 0"), await _state(one, "select 1")]
    await transaction.rollback()
    return {"refused": states, "recovered": await one.fetchval("select 7")}


async def _listen(one: Any) -> list[Any]:
    try:
        await one.add_listener("news", lambda *_: None)
    except asyncpg.PostgresError as error:
        return [error.sqlstate, "direct host" in f"{error} {error.hint}"]
    return [None, False]


async def _temporary(one: Any) -> list[Any]:
    outside = await _state(one, "create temp table staying (n int)")
    async with one.transaction():
        await one.execute("create temp table passing (n int)")
        await one.execute("insert into passing values (1), (2), (3)")
        inside = await one.fetchval("select count(*) from passing")
    return [outside, inside, await _state(one, "select * from passing")]


async def _lock(one: Any, other: Any) -> list[Any]:
    session_lock = await _state(one, "select pg_advisory_lock(1)")
    async with one.transaction():
        await one.execute("select pg_advisory_xact_lock(1)")
        meanwhile = await other.fetchval("select pg_try_advisory_xact_lock(1)")
    return [session_lock, meanwhile, await other.fetchval("select pg_try_advisory_xact_lock(1)")]


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
