"""Runs typical actions with asyncpg. Usage: `URI ADDRESS`; prints one line of JSON."""

import asyncio
import json
import sys
from typing import Any

import asyncpg

from journeys.clients.asyncpg_actions import CLIENT, cancel, copy, prepare_uri, recover, stream
from journeys.clients.statements import NOTIFY, TEMPORARY_TABLE


async def main(uri: str, address: str) -> dict[str, Any]:
    uri = prepare_uri(uri, address)
    session, other = await asyncpg.connect(uri), await asyncpg.connect(uri)
    results = {
        "client": CLIENT,
        "is_bound": False,
        **await _prepare(session),
        **await cancel(session, other),
        **await copy(session, TEMPORARY_TABLE),
        "streamed": await stream(session),
        "notified": await _notify(session, other),
        **await recover(session),
    }
    await session.close()
    await other.close()
    return results


async def _prepare(session: Any) -> dict[str, Any]:
    prepared = await session.prepare("select $1::int * $1::int")
    squares = [await prepared.fetchval(n) for n in range(1, 11)]
    statements = "select count(*) from pg_prepared_statements where statement like '%*%::int'"
    return {"prepared": squares, "statements": await session.fetchval(statements)}


async def _notify(session: Any, other: Any) -> list[str]:
    payloads: asyncio.Queue[str] = asyncio.Queue()
    await session.add_listener("news", lambda _connection, _pid, _channel, payload: payloads.put_nowait(payload))
    await other.execute(NOTIFY)
    async with asyncio.timeout(30):
        words = [await payloads.get() for _ in range(2)]
    await session.reset()
    return words


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
