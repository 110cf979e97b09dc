"""The memory of connections that do nothing, in what stands between them and the server."""

import asyncio
import ssl
from collections.abc import Sequence
from functools import cache
from typing import Any

import asyncpg

from bench import gateway_workers, machine
from bench.tls_postgres import Route
from bough.postgres import MAINTENANCE_DATABASE

CONNECTIONS = 200  # a round
_WARM_UP_CONNECTIONS = 10  # they pay for what all share
_SETTLE_SECONDS = 1.0  # seconds


def measure_kib(way: Route, pids: Sequence[int]) -> float:
    """Private memory of the processes, a connection, when all are open and have asked one query."""
    return asyncio.run(_kib(way, pids))


async def _kib(way: Route, pids: Sequence[int]) -> float:
    first = [await _connect_and_query(way) for _ in range(_WARM_UP_CONNECTIONS)]
    before = machine.private_kib(pids)
    rest = [await _connect_and_query(way) for _ in range(CONNECTIONS)]
    await asyncio.sleep(_SETTLE_SECONDS)
    used = (machine.private_kib(pids) - before) / CONNECTIONS
    for each in (*first, *rest):
        await each.close()
    return used


async def _connect_and_query(way: Route) -> Any:
    """A simple query: an extended one of asyncpg's would take two transactions, which not every pooler allows."""
    session = await asyncpg.connect(
        host="127.0.0.1",
        port=way.port,
        user=gateway_workers.ROLE,
        password=gateway_workers.PASSWORD,
        database=MAINTENANCE_DATABASE,
        ssl=_any_certificate(),
        server_settings=dict(word.split("=", 1) for word in way.options.split()),
    )
    await session.execute("select 1")
    return session


@cache
def _any_certificate() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
