"""asyncpg does what programs do with a database. `URI [ADDRESS]`; prints one line of JSON."""

import asyncio
import json
import socket
import sys
from typing import Any
from urllib.parse import urlsplit

import asyncpg

SLEEPS = "select count(*) from pg_stat_activity where query = 'select pg_sleep(60)' and wait_event = 'PgSleep'"


def resolve(host: str, address: str) -> None:
    """Have a name lead to an address, on machines that do not know it."""
    asked = socket.getaddrinfo

    def answer(name: Any, *more: Any, **how: Any) -> Any:
        return asked(address if name == host else name, *more, **how)

    socket.getaddrinfo = answer  # type: ignore[assignment]


async def main(uri: str, address: str = "") -> dict[str, Any]:
    if address:
        resolve(urlsplit(uri).hostname or "", address)
    uri = uri.replace("&channel_binding=require", "")  # it cannot, and takes the word for a setting of the server
    seen: dict[str, Any] = {"client": f"asyncpg {asyncpg.__version__}", "is_bound": False}
    one, other = await asyncpg.connect(uri), await asyncpg.connect(uri)
    prepared = await one.prepare("select $1::int * $1::int")
    seen["prepared"] = [await prepared.fetchval(n) for n in range(1, 11)]
    seen["statements"] = await one.fetchval(
        "select count(*) from pg_prepared_statements where statement like '%*%::int'"
    )
    seen |= await _cancel(one, other)
    seen |= await _copy(one)
    seen["streamed"] = await _stream(one)
    seen["notified"] = await _notify(one, other)
    seen |= await _recover(one)
    await one.close()
    await other.close()
    return seen


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
    await one.execute("create temp table copied (n int, word text)")
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


async def _notify(one: Any, other: Any) -> list[str]:
    heard: asyncio.Queue[str] = asyncio.Queue()
    await one.add_listener("news", lambda _connection, _pid, _channel, payload: heard.put_nowait(payload))
    await other.execute("select pg_notify('news', word) from unnest(array['one', 'two']) word")
    async with asyncio.timeout(30):
        words = [await heard.get() for _ in range(2)]
    await one.reset()
    return words


async def _recover(one: Any) -> dict[str, Any]:
    states = []
    transaction = one.transaction()
    await transaction.start()
    for statement in ("select 1 / 0", "select 1"):
        try:
            await one.execute(statement)
        except asyncpg.PostgresError as error:
            states.append(error.sqlstate)
    await transaction.rollback()
    return {"refused": states, "recovered": await one.fetchval("select 7")}


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
