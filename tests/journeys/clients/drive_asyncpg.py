"""asyncpg does what programs do with a database. `URI ADDRESS`; prints one line of JSON."""

import asyncio
import json
import sys
from typing import Any

import asyncpg

from journeys.clients.asyncpg_actions import CLIENT, cancel, copy, prepare_uri, recover, stream
from journeys.clients.statements import NOTIFY, TEMPORARY_TABLE


async def main(uri: str, address: str) -> dict[str, Any]:
    uri = prepare_uri(uri, address)
    one, other = await asyncpg.connect(uri), await asyncpg.connect(uri)
    seen = {
        "client": CLIENT,
        "is_bound": False,
        **await _prepare(one),
        **await cancel(one, other),
        **await copy(one, TEMPORARY_TABLE),
        "streamed": await stream(one),
        "notified": await _notify(one, other),
        **await recover(one),
    }
    await one.close()
    await other.close()
    return seen


async def _prepare(one: Any) -> dict[str, Any]:
    prepared = await one.prepare("select $1::int * $1::int")
    squares = [await prepared.fetchval(n) for n in range(1, 11)]
    statements = "select count(*) from pg_prepared_statements where statement like '%*%::int'"
    return {"prepared": squares, "statements": await one.fetchval(statements)}


async def _notify(one: Any, other: Any) -> list[str]:
    heard: asyncio.Queue[str] = asyncio.Queue()
    await one.add_listener("news", lambda _connection, _pid, _channel, payload: heard.put_nowait(payload))
    await other.execute(NOTIFY)
    async with asyncio.timeout(30):
        words = [await heard.get() for _ in range(2)]
    await one.reset()
    return words


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
